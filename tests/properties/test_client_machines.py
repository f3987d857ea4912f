"""One state machine for each pure object of the client, against a model of a few lines."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from client import errors
from client.coordinator import CoordinatorState, ExternalView, FirstRequest
from client.external_coordinator import Broadcast, ExternalCoordinatorState, Publish
from client.handshake import HandshakeState, OpenGate, SendInit, Stage
from client.protocol.codec import Codec
from client.protocol.ids import identity_from_rank
from client.protocol.messages import (
    CoordinatorPublish,
    EngineCoreOutput,
    EngineCoreOutputs,
    FinishReason,
    Hello,
    Ready,
    ReadyResponse,
)
from client.protocol.profiles import profile_for
from client.requests import AbortGrouping, RequestRegistry
from client.routing import Routing
from client.streams import End, Pending, StreamState
from client.utility import Failed, FanOut, Ok, UtilityRegistry

pytestmark = pytest.mark.slow

SETTINGS = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
RANKS = (256, 0, 1)
ENGINES = [identity_from_rank(rank) for rank in RANKS]
WAVES = st.integers(0, 6)
RANK = st.sampled_from(RANKS)


class Requests(RuleBasedStateMachine):
    """An id is free, in flight or departing; counts are those of the ids in flight."""

    live = Bundle("live")

    def __init__(self):
        super().__init__()
        self.registry = RequestRegistry(ENGINES)
        self.in_flight = {}
        self.departing = {}
        self.closed = False

    @rule(target=live, name=st.sampled_from("abcd"), engine=st.sampled_from(ENGINES))
    def register(self, name, engine):
        try:
            entry = self.registry.register(name, engine, object())
        except errors.DuplicateRequestId:
            assert name in self.in_flight or name in self.departing
            return multiple()
        except errors.ClientClosed:
            assert self.closed
            return multiple()
        assert not self.closed
        assert name not in self.in_flight
        assert name not in self.departing
        self.in_flight[name] = entry
        return entry

    @rule(entry=live, departing=st.booleans())
    def release(self, entry, departing):
        held = self.in_flight.get(entry.request_id) is entry
        assert self.registry.release(entry, departing=departing) is held
        if held:
            del self.in_flight[entry.request_id]
            if departing:
                self.departing[entry.request_id] = entry

    @rule(entry=live)
    def depart(self, entry):
        self.registry.departed(entry)
        if self.departing.get(entry.request_id) is entry:
            del self.departing[entry.request_id]

    @precondition(lambda self: not self.closed)
    @rule()
    def close(self):
        drained = self.registry.close(errors.ClientClosed())
        assert Counter(e.serial for e in drained) == Counter(
            e.serial for e in self.in_flight.values()
        )
        self.closed = True
        self.in_flight, self.departing = {}, {}

    @invariant()
    def counts_agree(self):
        assert set(self.registry.in_flight()) == set(self.in_flight)
        for engine in ENGINES:
            owned = [e for e in self.in_flight.values() if e.engine == engine]
            assert self.registry.count(engine) == len(owned)


class Utilities(RuleBasedStateMachine):
    """Each id is handed out once and leaves once."""

    ids = Bundle("ids")

    def __init__(self):
        super().__init__()
        self.registry = UtilityRegistry()
        self.waiting = {}
        self.last = 0

    @rule(target=ids)
    def allocate(self):
        waiter = object()
        call_id = self.registry.allocate(waiter)
        assert call_id == self.last + 1
        self.last = call_id
        self.waiting[call_id] = waiter
        return call_id

    @rule(call_id=st.one_of(ids, st.integers(-3, 3)))
    def reply(self, call_id):
        assert self.registry.resolve(call_id) is self.waiting.pop(call_id, None)

    @rule(call_id=consumes(ids))
    def release(self, call_id):
        assert self.registry.release(call_id) is (self.waiting.pop(call_id, None) is not None)

    @invariant()
    def pending_agrees(self):
        assert self.registry.pending() == tuple(sorted(self.waiting))


class FanOuts(RuleBasedStateMachine):
    """Settled with the last outcome, never before; the first error in engine order shows."""

    def __init__(self):
        super().__init__()
        self.fan_out = FanOut(RANKS)
        self.outcomes = {}

    @precondition(lambda self: len(self.outcomes) < len(RANKS))
    @rule(pick=st.integers(0, 2), fails=st.booleans())
    def settle(self, pick, fails):
        still = [at for at in range(len(RANKS)) if at not in self.outcomes]
        at = still[pick % len(still)]
        error = errors.UtilityCallFailed("m", at, "x")
        self.outcomes[at] = error if fails else at * 10
        self.fan_out.record(at, Failed(error) if fails else Ok(at * 10))

    @precondition(lambda self: bool(self.outcomes))
    @rule(pick=st.integers(0, 2))
    def settle_twice(self, pick):
        again = sorted(self.outcomes)[pick % len(self.outcomes)]
        with pytest.raises(ValueError, match="settles twice"):
            self.fan_out.record(again, Ok(1))

    @invariant()
    def visible_when_all_settled(self):
        assert self.fan_out.settled is (len(self.outcomes) == len(RANKS))
        assert self.fan_out.open_ranks() == [
            rank for at, rank in enumerate(RANKS) if at not in self.outcomes
        ]
        if not self.fan_out.settled:
            return
        failed = [o for _, o in sorted(self.outcomes.items()) if isinstance(o, Exception)]
        if failed:
            with pytest.raises(errors.UtilityCallFailed) as caught:
                self.fan_out.results()
            assert caught.value is failed[0]
        else:
            assert self.fan_out.results() == [0, 10, 20]


class Streams(RuleBasedStateMachine):
    """What is read is what was pushed, in order, up to the first end."""

    def __init__(self):
        super().__init__()
        self.state = StreamState("a")
        self.queue = []
        self.open = True
        self.ended = False

    def _add(self, item, last):
        if self.open:
            self.queue.append(item)
            self.open = not last

    @rule(token=st.integers(0, 9), final=st.booleans())
    def push(self, token, final):
        reason = FinishReason.STOP if final else None
        output = EngineCoreOutput("a", (token,), finish_reason=reason)
        self.state.push(output)
        self._add(output, final)

    @rule()
    def fail(self):
        error = errors.EngineCoreDead()
        self.state.fail(error)
        self._add(error, last=True)

    @rule()
    def close(self):
        self.state.close()
        self._add(None, last=True)

    @rule()
    def take(self):
        item = self.state.take()
        if self.ended:
            assert item == End()
        elif not self.queue:
            assert item == Pending()
        else:
            expected = self.queue.pop(0)
            if expected is None:
                assert isinstance(item, errors.RequestStreamClosed)
            else:
                assert item is expected
            self.ended = not self.open and not self.queue

    @rule()
    def drop(self):
        assert self.state.drop() is not self.ended
        self.ended = True
        self.queue.clear()


class Routes(RuleBasedStateMachine):
    """The chosen engine has the lowest score; a rank is honoured or refused."""

    def __init__(self):
        super().__init__()
        self.routing = Routing(ENGINES, waiting_weight=3)
        self.in_flight = dict.fromkeys(ENGINES, 0)
        self.reports = {}

    @rule(index=st.one_of(RANK, st.integers(-2, 70_000)), running=WAVES, waiting=WAVES)
    def stats(self, index, running, waiting):
        report = {"num_running_reqs": running, "num_waiting_reqs": waiting}
        assert self.routing.apply_stats(index, report) is (index in RANKS)
        if index in RANKS:
            self.reports[identity_from_rank(index)] = (running, waiting)

    @rule()
    def admit(self):
        def score(engine):
            own = self.in_flight[engine]
            if engine not in self.reports:
                return own
            running, waiting = self.reports[engine]
            return max(own, running + waiting) + 3 * waiting

        chosen = self.routing.choose(None, self.in_flight.__getitem__)
        assert chosen == min(sorted(ENGINES), key=score)
        self.in_flight[chosen] += 1

    @rule(engine=st.sampled_from(ENGINES))
    def finish(self, engine):
        self.in_flight[engine] = max(0, self.in_flight[engine] - 1)

    @rule(rank=st.one_of(RANK, st.integers(-5, 200_000)))
    def explicit(self, rank):
        in_flight = self.in_flight.__getitem__
        if rank in RANKS:
            assert self.routing.choose(rank, in_flight) == identity_from_rank(rank)
            return
        with pytest.raises(errors.InvalidDataParallelRank) as caught:
            self.routing.choose(rank, in_flight)
        assert caught.value.connected_ranks == (0, 256, 1)


class Coordinators(RuleBasedStateMachine):
    """Waves never go back, whatever order commands and notices come in."""

    queued = Bundle("queued")

    def __init__(self):
        super().__init__()
        self.state = CoordinatorState(frontend_starts_waves=True)
        self.highest = 0
        self.broadcasts = []

    @rule(target=queued, rank=RANK)
    def notify(self, rank):
        was_running = self.state.engines_running
        told = self.state.notify_first_request(rank)
        assert self.state.engines_running
        assert (told is None) is was_running
        return multiple() if told is None else told

    @rule(command=consumes(queued))
    def first_request(self, command):
        before = self.state.current_wave
        sent = self.state.on_first_request(command)
        assert self.state.engines_running
        assert self.state.current_wave == before == sent.wave
        stale = command.wave < before
        assert sent.exclude_engine_index == (None if stale else command.target)
        self.broadcasts.append(sent.wave)

    @rule(wave=WAVES)
    def complete(self, wave):
        before = self.state.current_wave
        self.state.on_wave_complete(wave)
        assert self.state.current_wave == max(before, wave + 1)
        assert not (wave >= before and self.state.engines_running)

    @rule(wave=WAVES, rank=RANK)
    def start(self, wave, rank):
        before = self.state.snapshot()
        sent = self.state.on_start_wave(wave, rank)
        starts = (wave, True) > (before.current_wave, before.engines_running)
        assert (sent is not None) is starts
        if sent is not None:
            assert (sent.wave, sent.exclude_engine_index) == (wave, rank)
            self.broadcasts.append(wave)

    @invariant()
    def never_back(self):
        assert self.state.current_wave >= self.highest
        self.highest = self.state.current_wave
        assert self.broadcasts == sorted(self.broadcasts)


class ExternalViews(RuleBasedStateMachine):
    """The last publish is the state; between publishes one first request is told."""

    def __init__(self):
        super().__init__()
        self.view = ExternalView(frontend_starts_waves=True)
        self.pair = (0, False)

    @rule(wave=WAVES, running=st.booleans())
    def publish(self, wave, running):
        self.view.apply(CoordinatorPublish(None, wave, running))
        self.pair = (wave, running)

    @rule(rank=RANK)
    def notify(self, rank):
        told = self.view.notify_first_request(rank)
        assert (told is None) is self.pair[1]
        if told is not None:
            assert (told.exclude_engine_index, told.wave) == (rank, self.pair[0])
        self.pair = (self.pair[0], True)

    @invariant()
    def agrees(self):
        assert (self.view.current_wave, self.view.engines_running) == self.pair


class Processes(RuleBasedStateMachine):
    """The process's waves never go back, each change is published, counts mix no steps."""

    @initialize(release=st.sampled_from(["0.26.0", "0.28.0", "0.32.0", "0.33.0"]))
    def begin(self, release):
        self.profile = profile_for(release)
        self.now = 0.0
        self.state = ExternalCoordinatorState(self.profile, 2, wave_coordination=True, now=0.0)
        self.state.started = True
        self.highest = 0
        self.steps = [0, 0]

    def _check(self, before, effects):
        changed = self.state.snapshot() != before
        published = [e.message for e in effects if isinstance(e, Publish)]
        assert bool(published) is changed
        for message in published:
            assert message.counts is None
            assert (message.current_wave, message.engines_running) == (
                self.state.current_wave, self.state.engines_running,
            )  # fmt: skip

    @rule(engine=st.integers(0, 1), complete=st.booleans(), wave=WAVES)
    def notice(self, engine, complete, wave):
        before = self.state.snapshot()
        outputs = EngineCoreOutputs(
            engine, wave_complete=wave if complete else None, start_wave=None if complete else wave
        )
        effects = self.state.on_outputs(outputs)
        self._check(before, effects)

    @rule(rank=st.integers(0, 1), wave=WAVES)
    def first_request(self, rank, wave):
        before = self.state.snapshot()
        effects = self.state.on_first_request(FirstRequest(rank, wave))
        sent = [e.message for e in effects if isinstance(e, Broadcast)]
        wanted = self.profile.frontend_starts_waves and not before.engines_running
        assert bool(sent) is wanted
        assert all(m.wave == before.current_wave for m in sent)
        self._check(before, effects)

    @rule(engine=st.integers(0, 1), running=WAVES)
    def step(self, engine, running):
        self.steps[engine] += 1
        stats = {
            "num_waiting_reqs": 0, "num_running_reqs": running, "kv_cache_usage": 0.0,
            "current_wave": 0, "step_counter": self.steps[engine],
        }  # fmt: skip
        self.state.on_outputs(EngineCoreOutputs(engine, scheduler_stats=stats))

    @rule(later=st.floats(0, 6))
    def tick(self, later):
        due = self.state.next_publish(self.now)
        assert due >= self.now
        self.now += later
        if self.now >= due:
            (effect,) = self.state.on_timeout(self.now)
            assert len(effect.message.counts) == 2
            assert self.state.next_publish(self.now) > self.now

    @invariant()
    def never_back(self):
        if hasattr(self, "state"):
            assert self.state.current_wave >= self.highest
            self.highest = self.state.current_wave


class Handshakes(RuleBasedStateMachine):
    """Whatever arrives, a refusal changes nothing, and the end is reached by all in order."""

    @initialize(coordinator=st.booleans())
    def begin(self, coordinator):
        profile = profile_for("0.28.0")
        self.codec = Codec(profile)
        self.coordinator = coordinator
        self.state = HandshakeState(self.codec, profile, engine_count=2, coordinator=coordinator)
        self.hello, self.ready, self.registered = set(), set(), set()
        self.subscriptions = 0

    def expected_stage(self):
        if len(self.hello) < 2:
            return Stage.HELLO
        if self.coordinator and self.subscriptions < 2:
            return Stage.SUBSCRIPTIONS
        if len(self.ready) < 2:
            return Stage.READY
        return Stage.REGISTRATION if len(self.registered) < 2 else Stage.DONE

    @precondition(lambda self: self.state.stage in (Stage.HELLO, Stage.READY, Stage.DONE))
    @rule(rank=RANK)
    def say_hello(self, rank):
        identity = identity_from_rank(rank)
        allowed = self.state.stage is Stage.HELLO and identity not in self.hello
        message = [identity, self.codec.encode_hello(Hello())]
        if allowed:
            assert self.state.on_handshake(message) == [SendInit(identity)]
            self.hello.add(identity)
        else:
            with pytest.raises(errors.UnexpectedHandshakeMessage):
                self.state.on_handshake(message)

    @precondition(lambda self: self.state.stage in (Stage.HELLO, Stage.READY))
    @rule(rank=RANK)
    def say_ready(self, rank):
        identity = identity_from_rank(rank)
        early = self.coordinator and self.state.stage is Stage.HELLO
        message = [identity, self.codec.encode_ready(Ready())]
        if not early and identity in self.hello and identity not in self.ready:
            assert self.state.on_handshake(message) == []
            self.ready.add(identity)
        else:
            with pytest.raises(errors.UnexpectedHandshakeMessage):
                self.state.on_handshake(message)

    @precondition(lambda self: self.state.stage is Stage.SUBSCRIPTIONS)
    @rule(frame=st.sampled_from([b"\x01", b"\x00"]))
    def subscribe(self, frame):
        effects = self.state.on_subscription([frame])
        self.subscriptions += frame == b"\x01"
        assert effects == ([OpenGate()] if self.subscriptions == 2 else [])

    @precondition(lambda self: self.state.stage is Stage.REGISTRATION)
    @rule(rank=RANK)
    def register(self, rank):
        identity = identity_from_rank(rank)
        values = dict.fromkeys(self.codec.profile.ready_required, 1)
        values |= {"dtype": "float16", "vllm_version": "x", "instance_id": "i"}
        message = [identity, self.codec.encode_ready_response(ReadyResponse(values))]
        if identity in self.hello and identity not in self.registered:
            self.state.on_registration(message)
            self.registered.add(identity)
        else:
            with pytest.raises(errors.UnexpectedHandshakeMessage):
                self.state.on_registration(message)

    @invariant()
    def stage_agrees(self):
        if hasattr(self, "state"):
            assert self.state.stage is self.expected_stage()
            if self.state.stage is Stage.DONE:
                assert [e.identity for e in self.state.engines()] == sorted(self.hello)


class AbortGroups(RuleBasedStateMachine):
    """Every id is named once, to its owner, whatever the grouping."""

    def __init__(self):
        super().__init__()
        self.aborted = []

    @rule(engine=st.sampled_from(ENGINES))
    def abort(self, engine):
        self.aborted.append((f"r{len(self.aborted)}", engine))

    @invariant()
    def names_each_once(self):
        grouping = AbortGrouping(ENGINES)
        for grouped in (True, False):
            frames = grouping.group(self.aborted, one_frame_per_engine=grouped)
            named = [(name, engine) for engine, names in frames for name in names]
            assert sorted(named) == sorted(self.aborted)
            if grouped:
                engines = [engine for engine, _ in frames]
                assert engines == sorted(set(engines))


for _machine in (
    Requests, Utilities, FanOuts, Streams, Routes, Coordinators, ExternalViews, Processes,
    Handshakes, AbortGroups,
):  # fmt: skip
    _machine.TestCase.settings = SETTINGS

TestRequests = Requests.TestCase
TestUtilities = Utilities.TestCase
TestFanOuts = FanOuts.TestCase
TestStreams = Streams.TestCase
TestRoutes = Routes.TestCase
TestCoordinators = Coordinators.TestCase
TestExternalViews = ExternalViews.TestCase
TestProcesses = Processes.TestCase
TestHandshakes = Handshakes.TestCase
TestAbortGroups = AbortGroups.TestCase
