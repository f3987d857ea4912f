"""Engines that step together, from what they receive to what leaves them."""

from __future__ import annotations

import pytest

from client.protocol.messages import RequestBatch
from mock_engines import events
from mock_engines.aio import next_turn
from mock_engines.behaviours.model import Pace
from mock_engines.meeting_log import KEPT


def on(kind, *do, **narrow):
    return {"rules": [{"on": kind, "do": list(do), **narrow}]}


def scheduler(run, rank=0):
    return run.cluster._handles[rank]._actor.stepping.rank.scheduler


def together(play, story, **parts):
    return play(story, waves="lockstep", coordinator=True, **parts)


def batches(run):
    """Messages on the output socket, which all were ones that a frontend can read."""
    assert not [kind for kind in run.peer.kinds if isinstance(kind, Exception)]
    return [kind for kind in run.peer.kinds if isinstance(kind, RequestBatch)]


def finishes(run):
    return [(name, finish) for name, _, finish in run.peer.rows() if finish is not None]


def test_call_that_only_takes_effect_is_not_answered(play):
    async def story(run):
        await run.peer.utility("sleep", 1, "abort")
        await run.settle()
        assert run.cluster.state(0)["sleep_level"] == 1

    run = together(play, story, specs=[on("utility", {"apply": True})])
    assert run.peer.replies() == []
    assert [event.method for event in run.seen(events.UtilityApplied)] == ["sleep"]


def test_engine_that_stalls_in_the_middle_of_a_request_steps_on_when_its_gate_opens(play):
    counts = []

    async def story(run):
        await run.peer.add("a", max_tokens=50)
        while len(run.peer.rows("a")) < 3:
            await next_turn()
        await run.cluster.act(0, run.actions({"stall": "thaw"}))
        await run.settle()
        counts.append(len(run.peer.rows("a")))
        assert run.cluster.state(0)["stalled"]
        run.gates.open("thaw")
        await run.settle()

    run = together(play, story)
    assert 0 < counts[0] < 50
    stalled, resumed = (
        run.events.index(run.seen(kind)[0]) for kind in (events.EngineStalled, events.EngineResumed)
    )
    assert run.events[stalled + 1 : resumed] == []
    assert len(run.peer.rows("a")) == 50
    assert finishes(run) == [("a", "length")]


def test_request_that_comes_in_a_rejecting_pause_is_refused(play):
    async def story(run):
        await run.peer.utility("pause_generation", "abort", True)
        await run.settle()
        await run.peer.add("a")
        await run.settle()

    run = together(play, story)
    assert run.peer.rows() == [("a", (), "error")]
    (row,) = batches(run)[0].outputs
    assert row.error.code == "engine_paused"
    assert run.cluster.state(0)["requests"] == []


def test_request_that_comes_in_a_pause_that_rejects_nothing_waits(play):
    async def story(run):
        await run.peer.utility("pause_scheduler", "keep", True)
        await run.settle()
        await run.peer.add("a")
        await run.settle()
        assert run.peer.rows() == []
        await run.peer.utility("resume_scheduler")
        await run.settle()

    assert finishes(together(play, story)) == [("a", "length")]


def test_memory_of_the_cache_is_given_back_in_a_pause(play):
    async def story(run):
        await run.peer.utility("pause_scheduler", "abort", True)
        await run.peer.utility("release_kv_cache_memory")
        await run.settle()
        assert run.cluster.state(0)["kv_cache_released"] is True

    run = together(play, story)
    assert [failure for _, failure, _ in run.peer.replies()] == [None, None]


def test_reset_of_the_cache_sends_running_requests_back_to_wait_only_if_it_is_told_to(play):
    seen = []

    async def story(run):
        await run.peer.add("a", max_tokens=5_000)
        await run.peer.utility("pause_scheduler", "keep", False)
        await run.settle()
        for arguments in ((), (False, True), (True, True)):
            await run.peer.utility("reset_prefix_cache", *arguments)
            await run.settle()
            seen.append(scheduler(run).counts)
        await run.peer.abort("a")
        await run.peer.utility("resume_scheduler")
        await run.settle()

    together(play, story)
    assert seen == [(1, 0), (1, 0), (0, 1)]


@pytest.mark.parametrize("batch", [1, 64])
def test_id_that_comes_twice_is_answered_once_and_harms_nobody(play, batch):
    async def story(run):
        for _ in range(2):
            await run.peer.add("a", max_tokens=2)
        await run.settle()
        await run.peer.add("b", max_tokens=2)
        await run.settle()

    run = together(play, story, pace=Pace(batch=batch))
    assert finishes(run) == [("a", "length"), ("b", "length")]
    assert all(batch.outputs for batch in batches(run))
    assert run.cluster.failures == ()


def test_rank_that_died_and_came_back_is_met_again(play):
    async def story(run):
        assert run.cluster.group_states[1].startswith("engine 1: not running")
        await run.cluster.kill(1, "close")
        await run.settle()
        assert run.cluster.group_states[1] == "engine 1: dead"
        await run.cluster.rejoin(1)
        await run.settle()
        for rank, name in ((0, "a"), (1, "b")):
            await run.peer.add(name, rank=rank, wave=rank)
            await run.settle()
            await run.peer.start_wave(rank, exclude=rank)
            await run.settle()

    run = together(play, story, ranks=(0, 1))
    assert finishes(run) == [("a", "length"), ("b", "length")]


def test_rank_that_died_while_its_peer_waits_lets_that_one_go_on_when_it_comes_back(play):
    async def story(run):
        await run.peer.add("a", max_tokens=2)
        await run.settle()
        assert run.peer.rows() == []  # rank 1 sleeps
        await run.cluster.kill(1, "close")
        await run.cluster.rejoin(1)
        await run.settle()

    run = together(play, story, ranks=(0, 1))
    stuck = run.seen(events.RanksStuck)
    assert [(each.entered, each.missing) for each in stuck] == [(((0, "forward"),), (1,))]
    assert finishes(run) == []


def test_rank_that_died_in_a_meeting_and_came_back_is_not_there_any_more(play):
    async def story(run):
        await run.peer.add("a", rank=1)
        await run.settle()
        assert run.peer.rows() == []  # rank 0 sleeps
        await run.cluster.kill(1, "close")
        await run.cluster.rejoin(1)
        await run.peer.start_wave(0, exclude=1)
        await run.settle()
        await run.cluster.idle()

    run = together(play, story, ranks=(0, 1))
    assert run.seen(events.ExchangeHeld) == []
    last = run.seen(events.RanksStuck)[-1]
    assert (last.entered, last.missing) == (((0, "forward"),), (1,))


def test_rank_that_never_came_is_told_so(play):
    async def story(run):
        await run.settle()
        assert run.cluster.group_states[1] == "engine 1: has not joined"

    together(play, story, ranks=(0, 1), specs=[{"engine": 1, "join": {"never": True}}])


def test_rank_that_took_more_messages_than_are_kept_tells_how_many_and_all_of_its_operations(play):
    async def story(run):
        await run.peer.add("a", max_tokens=2)
        for _ in range(KEPT + 3):
            await run.peer.abort("nobody")
        await run.peer.abort("b", rank=1)
        await run.settle()
        await run.cluster.idle()

    run = together(play, story, ranks=(0, 1))
    last = run.seen(events.RanksStuck)[-1]
    logs = {rank: (did, lies) for rank, did, lies in last.log}
    assert logs[1] == (("took ABORT b-0123abcd",), ())
    # Rank 0 waits in its first forward pass: what comes after the ADD lies in its mailbox, whole.
    assert logs[0] == (("forward", "took ADD a-0123abcd"), (f"{KEPT + 3} ABORT nobody-0123abcd",))
    assert last.dropped == ()

    async def other_way_round(run):
        for _ in range(KEPT + 3):
            await run.peer.abort("nobody")
        await run.settle()
        await run.peer.add("a", max_tokens=2)
        await run.settle()
        await run.cluster.idle()

    run = together(play, other_way_round, ranks=(0, 1))
    last = run.seen(events.RanksStuck)[-1]
    assert last.log[0][1] == (
        "forward",
        f"{KEPT - 1} took ABORT nobody-0123abcd",
        "took ADD a-0123abcd",
    )
    assert last.dropped == ((0, 4),)
