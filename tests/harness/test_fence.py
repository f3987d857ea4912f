"""The fence: behind it, everything that was sent before has arrived, in both worlds."""

from __future__ import annotations

import asyncio
import functools

import pytest

from client.aio import all_done
from client.events import (
    CoordinatorPublished,
    CoordinatorStateApplied,
    FirstRequestHandled,
    FirstRequestQueued,
    HealthFailed,
    ScaleNoticeHandled,
    ScaleNoticeQueued,
    UtilityRegistered,
    UtilitySettled,
    WaveNoticeHandled,
)
from client.protocol.ids import FENCE_METHOD
from harness.fence import ROUNDS, Balance, Fence
from harness.trace.events import Fenced, ProcessExited
from harness.trace.recorder import Recorder
from mock_engines.events import (
    AbortSeen,
    AddSeen,
    EngineDied,
    EngineIdle,
    EngineJoined,
    EngineRemoved,
    EngineResumed,
    EngineStalled,
    GateOpened,
    StartWaveSeen,
    UtilitySeen,
)
from tests.support.stories import WORLDS, of, outcomes, perform, sim, statuses
from tests.support.traces import add, call, complete, leave, start, wave

IN_BOTH = pytest.mark.parametrize("world", ["sim", pytest.param("zmq", marks=pytest.mark.zmq)])
IN_PROCESS = "topology: {engines: 3, coordinator: in-process, waves: script}\n"
EXTERNAL = "topology: {coordinator: external, transport: bootstrapped, waves: script}\n"


# --- in both worlds -------------------------------------------------------------------------


@IN_BOTH
def test_abort_that_was_sent_has_arrived_behind_the_fence(world):
    """Nothing else waits for the ABORTs; twenty of them leave just before the fence."""
    calls = "".join(f"  - call: {{id: c{n}, rank: {n % 2}}}\n" for n in range(20))
    leaves = "".join(f"  - drop: c{n}\n" for n in range(20))
    played = perform(
        "engines:\n  - rules: [{on: add, do: {hang: g}}]\nopen_at_end: [g]\nsteps:\n"
        f"{calls}  - wait: {{event: add, count: 20}}\n{leaves}"
        "  - fence: true\n"
        "  - expect: {count: {event: abort, at_least: 1}}\n"
        "  - expect: {in_flight: 0}\n",
        WORLDS[world](),
    )
    fence = next(r.seq for r in played.records if isinstance(r.event, Fenced))
    aborts = [r for r in played.records if isinstance(r.event, AbortSeen)]
    assert sorted(name for r in aborts for name in r.event.request_ids) == sorted(
        f"c{n}" for n in range(20)
    )
    assert max(r.seq for r in aborts) < fence


@IN_BOTH
def test_coordinator_traffic_has_been_acted_on_behind_the_fence(world):
    """The notice goes up, the broadcast comes down to every engine; nothing waits for either."""
    played = perform(
        IN_PROCESS
        + "steps:\n"
        + "".join(
            f"  - engine: {{engine: {n % 3}, do: {{start_wave: {n}}}}}\n"
            f"  - engine: {{engine: {n % 3}, do: {{wave_complete: {n}}}}}\n"
            for n in range(5)
        )
        + "  - fence: true\n  - expect: {coordinator_wave: 5, coordinator_running: false}\n",
        WORLDS[world](),
    )
    assert statuses(played) == [(11, "held")]
    fence = next(r.seq for r in played.records if isinstance(r.event, Fenced))
    heard = [r for r in played.records if isinstance(r.event, StartWaveSeen)]
    # Over sockets a notice of one engine may overtake those of others, and is an old one then.
    told = sum(isinstance(r.event, WaveNoticeHandled) and r.event.broadcast for r in played.records)
    assert told == 5 or (world == "zmq" and told > 0)
    assert len(heard) == 3 * told
    assert max(r.seq for r in heard) < fence


@IN_BOTH
def test_first_request_has_been_acted_on_behind_the_fence(world):
    played = perform(
        EXTERNAL + "steps:\n  - call: {id: a, rank: 1}\n  - finish: a\n  - fence: true\n"
        "  - expect: {coordinator_running: true}\n",
        WORLDS[world](),
        release="0.32.0",
    )
    assert statuses(played) == [(3, "held")]
    assert len(of(played, StartWaveSeen)) == 2


@IN_BOTH
@pytest.mark.parametrize("notice", ["wave_complete", "start_wave"])
def test_fence_is_not_stuck_by_what_a_stopped_coordinator_does_not_handle(world, notice):
    played = perform(
        EXTERNAL + "steps:\n  - coordinator: {stop: true}\n"
        f"  - engine: {{engine: 0, do: {{{notice}: 3}}}}\n  - fence: true\n"
        "  - coordinator: {start: true}\n  - fence: true\n",
        WORLDS[world](),
    )
    assert (statuses(played), len(of(played, Fenced))) == ([], 3)


@IN_BOTH
def test_fence_leaves_no_mark_in_the_trace(world):
    played = perform("steps:\n  - fence: true\n  - fence: true\n", WORLDS[world]())
    assert of(played, UtilitySeen) == []
    assert of(played, UtilityRegistered) == []
    assert of(played, UtilitySettled) == []


@IN_BOTH
@pytest.mark.parametrize("how", ["close", "sentinel"])
def test_fence_does_not_ask_dead_engines(world, how):
    played = perform(
        f"steps:\n  - engine: {{engine: 0, do: {{die: {how}}}}}\n  - fence: true\n"
        "  - fence: true\n",
        WORLDS[world](),
    )
    assert of(played, EngineDied) == [EngineDied(0, how)]
    assert (statuses(played), len(of(played, Fenced))) == ([], 3)


@IN_BOTH
def test_fence_does_not_ask_an_engine_that_never_joined(world):
    played = perform(
        "connect_fails: true\ntopology: {config: {ready_timeout_s: 0.05}}\n"
        "engines:\n  - {engine: 1, join: {never: true}}\n"
        "steps:\n  - connect: true\n  - fence: true\n",
        WORLDS[world](),
    )
    assert (statuses(played), len(of(played, Fenced))) == ([], 2)


@pytest.mark.zmq
def test_fence_reaches_a_rank_that_has_just_come_back():
    played = perform(
        "steps:\n  - engine: {engine: 1, do: {die: close}}\n"
        "  - engine: {engine: 1, rejoin: true}\n  - call: {id: a, rank: 1}\n  - fence: true\n"
        "  - finish: a\n",
        WORLDS["zmq"](),
    )
    assert outcomes(played) == {"a": "finished"}
    assert [add.engine for add in of(played, AddSeen)] == [1]


@IN_BOTH
def test_fence_of_a_client_that_was_shut_down_returns(world):
    played = perform("steps:\n  - shutdown: {}\n  - fence: true\n", WORLDS[world]())
    assert (statuses(played), len(of(played, Fenced))) == ([], 2)


# --- what it asks for, and how often --------------------------------------------------------


class FakeCluster:
    def __init__(self, log):
        self.log = log

    async def idle(self):
        self.log.append("idle")


class FakeFrontend:
    """Records whom it is told to reach; its round trip ends when the test says so."""

    def __init__(self, log, wait=None):
        self.log = log
        self.wait = wait

    async def fence(self, live_ranks):
        self.log.append(live_ranks)
        if self.wait is not None:
            await self.wait()


class FakeWorld:
    def __init__(self, log, *, virtual):
        self.log = log
        self.virtual = virtual

    async def settle(self):
        self.log.append("settle")


async def settled_turns(turns=10):
    """Let what is ready run."""
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


def fence_of(log, *, virtual=False, black_box=False, wait=None, publishes_seen=False):
    trace = Recorder(clock=lambda: 0.0)
    fence = Fence(
        world=FakeWorld(log, virtual=virtual),
        frontend=FakeFrontend(log, wait),
        cluster=FakeCluster(log),
        trace=trace,
        black_box=black_box,
        publishes_seen=publishes_seen,
    )
    return fence, trace


def joined(trace, *ranks):
    for rank in ranks:
        trace.emit(EngineJoined(rank, bytes([rank, 0]), True))


def run(body):
    """Run a body on a simulated loop, under a name that its failure shows."""
    return sim()._loop.run(body())


def test_simulated_fence_lets_the_loop_decide():
    log = []
    fence, trace = fence_of(log, virtual=True)
    joined(trace, 0, 1)
    run(functools.partial(fence))
    assert log == ["idle", "settle"] * ROUNDS


def test_real_fence_reaches_the_living_engines_in_order_each_round():
    log = []
    fence, trace = fence_of(log)
    joined(trace, 2, 0, 1, 3)
    trace.emit(EngineDied(1, "close"))
    trace.emit(EngineStalled(3, "g"))
    run(fence)
    assert log == ["idle", (0, 2), "settle"] * ROUNDS
    log.clear()
    trace.emit(EngineResumed(3))
    joined(trace, 1)
    run(fence)
    assert log == ["idle", (0, 1, 2, 3), "settle"] * ROUNDS


@pytest.mark.parametrize(("black_box", "waits"), [(True, True), (False, False)])
def test_fence_of_a_process_of_its_own_waits_for_the_abort_of_a_caller_who_left(black_box, waits):
    """Its answer is no proof that what it does besides has left; who tells what it does, proves it."""
    log, over = [], []
    fence, trace = fence_of(log, black_box=black_box)
    joined(trace, 0)
    for event in (call("a"), add(0, "a"), leave("a")):
        trace.emit(event)

    async def body():
        loop = asyncio.get_running_loop()
        loop.call_later(0.25, trace.emit, AbortSeen(0, ("a",)))
        await fence()
        over.append(loop.time())

    run(body)
    assert over == [0.25 if waits else 0]
    assert log == ["idle", (0,), "settle"] * ROUNDS


def test_real_fence_begins_anew_when_an_engine_dies_on_the_way():
    log = []

    async def hang_while_it_lives():
        if log[-1] == (0, 1):
            trace.emit(EngineDied(0, "vanish"))
            await asyncio.get_running_loop().create_future()

    fence, trace = fence_of(log, wait=hang_while_it_lives)
    joined(trace, 0, 1)
    run(fence)
    assert log == ["idle", (0, 1), (1,), "settle", "idle", (1,), "settle"]


def test_real_fence_waits_for_coordinator_traffic_of_the_reference_client():
    log = []
    fence, trace = fence_of(log)

    async def main():
        loop = asyncio.get_running_loop()
        trace.emit(complete(0, 1))
        task = loop.create_task(fence())
        await loop.settled()
        assert log == ["idle", ()]
        assert not task.done()
        trace.emit(handled(broadcast=False))
        await all_done([task])
        task.result()

    run(main)
    assert log == ["idle", (), "settle"] * ROUNDS


def test_real_fence_of_a_black_box_knows_no_coordinator_traffic():
    log = []
    fence, trace = fence_of(log, black_box=True)
    trace.emit(complete(0, 1))
    run(fence)
    assert log == ["idle", (), "settle"] * ROUNDS


# --- the balance ----------------------------------------------------------------------------


def handled(*, broadcast):
    return WaveNoticeHandled("start", 0, 1, 1, False, 1, True, broadcast)


def answered(broadcast_wave):
    return FirstRequestHandled(0, 1, 1, False, 1, True, broadcast_wave, 0)


def balance(*events):
    found = Balance()
    for event in events:
        found.feed(event)
    return found.settled()


JOINED = (EngineJoined(0, b"\0\0", True), EngineJoined(1, b"\1\0", True))


@pytest.mark.parametrize(
    ("events", "settled"),
    [
        ((), True),
        ((complete(0, 1),), False),
        ((start(0, 1),), False),
        ((complete(0, 1), handled(broadcast=False)), True),
        ((start(0, 1), complete(1, 1), handled(broadcast=False)), False),
        ((*JOINED, start(0, 1), handled(broadcast=True)), False),
        ((*JOINED, start(0, 1), handled(broadcast=True), wave(0, 1)), False),
        ((*JOINED, start(0, 1), handled(broadcast=True), wave(0, 1), wave(1, 1)), True),
        ((FirstRequestQueued(0, 1),), False),
        ((*JOINED, start(0, 1), handled(broadcast=True), EngineRemoved(1), wave(0, 1)), True),
        ((*JOINED, start(0, 1), handled(broadcast=True), EngineRemoved(1)), False),
        ((ScaleNoticeQueued(3),), False),
        ((ScaleNoticeQueued(3), ScaleNoticeHandled(2, 3)), True),
        ((FirstRequestQueued(0, 1), answered(None)), True),
        ((*JOINED, FirstRequestQueued(0, 1), answered(1)), False),
        ((*JOINED, FirstRequestQueued(0, 1), answered(1), wave(0, 1), wave(1, 1)), True),
        ((CoordinatorPublished(None, 1, True),), False),
        ((CoordinatorPublished(None, 1, True), CoordinatorStateApplied(1, True)), True),
        # Who is not there any more owes nothing, and nobody waits for it.
        ((*JOINED, handled(broadcast=True), wave(0, 1), EngineDied(1, "close")), True),
        ((*JOINED, EngineDied(1, "close"), handled(broadcast=True), wave(0, 1)), True),
        ((*JOINED, handled(broadcast=True), wave(0, 1), EngineStalled(1, "g")), True),
        (
            (*JOINED, handled(broadcast=True), wave(0, 1), EngineStalled(1, "g"),
             EngineResumed(1)),
            False,
        ),
        # A failed client handles nothing more.
        ((complete(0, 1), HealthFailed("Decode", "", True)), True),
        # Events of a child process may come late.
        ((handled(broadcast=False), complete(0, 1)), True),
        ((EngineIdle(0, ()),), True),
    ],
)  # fmt: skip
def test_balance_is_settled_when_nothing_is_under_way(events, settled):
    assert balance(*events) is settled


AGAIN = EngineJoined(1, b"\1\0", True)
UNDER_WAY = (*JOINED, handled(broadcast=True), wave(0, 1))


@pytest.mark.parametrize(
    ("events", "settled"),
    [
        (UNDER_WAY, False),
        # What was under way to its old sockets is lost.
        ((*UNDER_WAY, AGAIN), True),
        ((*UNDER_WAY, EngineDied(1, "close"), AGAIN), True),
        # So is what comes before its new subscription, and whether that is there nobody knows …
        ((*UNDER_WAY, AGAIN, handled(broadcast=True)), False),
        ((*UNDER_WAY, AGAIN, handled(broadcast=True), wave(0, 1)), True),
        # … until it has heard something, or is told READY.
        ((*UNDER_WAY, AGAIN, handled(broadcast=True), wave(0, 1), wave(1, 1)), True),
        (
            (*UNDER_WAY, AGAIN, *(handled(broadcast=True), wave(0, 1), wave(1, 1)),
             *(handled(broadcast=True), wave(0, 1))),
            False,
        ),
        ((*UNDER_WAY, AGAIN, GateOpened(1), handled(broadcast=True), wave(0, 1)), False),
    ],
)  # fmt: skip
def test_a_rank_that_comes_back_owes_nothing_until_it_hears_again(events, settled):
    assert balance(*events) is settled


def test_each_frontend_owes_an_answer_to_each_publish():
    found = Balance(frontends=2)
    found.feed(CoordinatorPublished(None, 1, True))
    found.feed(CoordinatorStateApplied(1, True))
    assert not found.settled()
    found.feed(CoordinatorStateApplied(1, True))
    assert found.settled()


def test_scripted_bytes_that_are_taken_over_hide_no_later_publish():
    found = Balance()
    found.feed(CoordinatorStateApplied(7, True))
    found.feed(CoordinatorPublished(None, 1, True))
    assert not found.settled()


def test_a_publish_before_anybody_had_subscribed_is_owed_by_nobody():
    found = Balance()
    found.feed(CoordinatorPublished(None, 1, True))
    found.forget_publishes()
    assert found.settled()


def test_a_process_that_ended_owes_nothing():
    assert balance(complete(0, 1), ProcessExited(0))


@pytest.mark.parametrize(
    ("black_box", "publishes_seen", "waits"),
    [(False, False, True), (True, False, False), (True, True, True)],
)
def test_a_black_box_is_balanced_where_it_shows_what_it_takes_over(
    black_box, publishes_seen, waits
):
    fence, trace = fence_of([], black_box=black_box, publishes_seen=publishes_seen)
    trace.emit(CoordinatorPublished(None, 1, True))

    async def body():
        task = asyncio.get_running_loop().create_task(fence())
        await settled_turns()
        over = task.done()
        trace.emit(CoordinatorStateApplied(1, True))
        await task
        return over

    assert run(body) is not waits


def test_balance_forgets_what_a_coordinator_took_with_it():
    found = Balance()
    for event in (
        *JOINED, complete(0, 1), FirstRequestQueued(0, 1), CoordinatorPublished(None, 1, True),
        handled(broadcast=True), complete(0, 2),
    ):  # fmt: skip
        found.feed(event)
    assert not found.settled()
    found.forget()
    assert found.settled()
    # Engines hear a broadcast once their subscriptions are back.
    found.feed(handled(broadcast=True))
    assert found.settled()
    found.feed(GateOpened(1))
    found.feed(handled(broadcast=True))
    assert not found.settled()
    found.feed(wave(1, 1))
    assert found.settled()


def test_fence_method_is_not_one_of_vllm():
    assert FENCE_METHOD.startswith("wavecheck")
