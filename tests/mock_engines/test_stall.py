"""Stalled engines in simulation: nothing in, nothing out, until their gate opens."""

import asyncio

import pytest

from client.protocol.ids import FENCE_METHOD
from mock_engines import events
from mock_engines.activity import Activity
from mock_engines.cluster import ScriptError

STALL = {"stall": "thaw"}


def on(kind, *do, **narrow):
    return {"rules": [{"on": kind, "do": list(do), **narrow}]}


def wire(run):
    """What happened at the engines, as class names."""
    return [
        type(event).__name__ for event in run.events if not isinstance(event, events.EngineIdle)
    ]


def test_stalled_engine_handles_and_sends_nothing_and_then_all_in_order(play):
    async def story(run):
        await run.peer.add("a", max_tokens=1)
        await run.peer.abort("a")
        await run.peer.utility("add_lora", ["x", 4, "/p"])
        await run.peer.utility(FENCE_METHOD)
        await run.settle()
        assert wire(run) == ["EngineJoined", "AddSeen", "EngineStalled"]
        assert run.peer.kinds == []
        assert run.cluster.state(0)["stalled"] is True
        run.events.clear()
        run.gates.open("thaw")
        await run.settle()
        assert run.cluster.state(0)["stalled"] is False

    run = play(story, specs=[on("add", STALL, {"output": {"finish": "stop"}})])
    assert wire(run) == [
        *("EngineResumed", "OutputSent", "AbortSeen"),
        *("UtilitySeen", "UtilityApplied", "UtilityReplySent"),
    ]
    assert run.peer.replies() == [(1, None, True), (2, None, True)]


def test_stall_holds_streams_and_timers_that_are_under_way(play):
    seen = []

    async def story(run):
        await run.peer.add("streams", max_tokens=4)
        await run.peer.add("waits", max_tokens=4)
        await run.settle()
        await run.cluster.act(0, run.actions(STALL))
        run.gates.open("more")
        await run.settle()
        seen.append(len(run.peer.rows()))
        run.gates.open("thaw")
        await run.cluster.idle()
        await run.settle()

    specs = [
        on("add", {"stream": {"pause_at": 1, "gate": "more"}}, request="streams"),
        on("add", {"delay_ms": 5}, {"stream": {}}, request="waits"),
    ]
    run = play(story, specs=specs)
    assert seen == [1]
    assert [len(run.peer.rows(name)) for name in ("streams", "waits")] == [4, 4]


def test_stall_also_holds_what_comes_on_the_coordinator_socket(play):
    async def story(run):
        await run.cluster.act(0, run.actions(STALL))
        await run.peer.start_wave(0)
        await run.settle()
        assert run.seen(events.StartWaveSeen) == []
        run.gates.open("thaw")
        await run.settle()

    run = play(story, coordinator=True)
    assert run.seen(events.StartWaveSeen) == [events.StartWaveSeen(0, 0, None)]


def test_stall_at_an_open_gate_changes_nothing(play):
    async def story(run):
        run.gates.open("thaw")
        await run.peer.utility("is_sleeping")
        await run.settle()

    run = play(story, specs=[on("utility", STALL, {"reply": True})])
    assert run.peer.replies() == [(1, None, True)]
    assert run.seen(events.EngineStalled) == []


def test_fences_and_steps_do_not_wait_for_a_stalled_engine(play):
    async def story(run):
        await run.cluster.act(0, run.actions({"open": "before"}, STALL, {"open": "after"}))
        assert run.gates.is_open("before")
        await run.cluster.act(0, run.actions({"open": "later"}), background=True)
        await run.cluster.idle()
        assert run.seen(events.EngineIdle) == [events.EngineIdle(1, ())]
        await run.settle()
        assert not run.gates.is_open("after")
        assert not run.gates.is_open("later")
        run.gates.open("thaw")
        await run.cluster.idle()
        assert run.gates.is_open("after")
        assert run.gates.is_open("later")
        assert len(run.seen(events.EngineIdle)) == 3

    play(story, ranks=(0, 1))


def test_engine_is_busy_from_the_moment_in_which_its_gate_opens(play):
    async def story(run):
        await run.peer.add("a", max_tokens=2)
        await run.settle()
        run.gates.open("thaw")
        await run.cluster.idle()
        assert len(run.seen(events.OutputSent)) == 2

    play(story, specs=[on("add", STALL, {"default": True})])


def test_error_behind_a_stall_is_not_lost(play):
    async def story(run):
        await run.cluster.act(0, run.actions(STALL, {"wave_complete": 1}))
        run.gates.open("thaw")
        with pytest.raises(ScriptError, match="no coordinator"):
            await run.cluster.idle()

    play(story)


def test_second_stall_begins_where_the_first_has_ended(play):
    async def story(run):
        await run.cluster.act(0, run.actions(STALL, {"stall": "again"}, {"open": "end"}))
        run.gates.open("thaw")
        await run.settle()
        assert run.cluster.state(0)["stalled"] is True
        assert not run.gates.is_open("end")
        run.gates.open("again")
        await run.cluster.idle()
        assert run.gates.is_open("end")

    run = play(story)
    assert [event.gate for event in run.seen(events.EngineStalled)] == ["thaw", "again"]


@pytest.mark.parametrize("by_step", [True, False])
def test_stalled_engine_can_vanish_and_return(play, by_step):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        if by_step:
            await run.cluster.act(0, run.actions({"die": "vanish"}))
        else:
            await run.cluster.kill(0, "vanish")
        await run.settle()
        await run.cluster.rejoin(0)
        await run.settle()
        await run.peer.add("b", max_tokens=1)
        await run.settle()

    run = play(story, specs=[on("add", STALL, request="a")])
    assert run.seen(events.EngineResumed) == []
    assert [row[0] for row in run.peer.rows()] == ["b"]


@pytest.mark.parametrize("how", ["sentinel", "close"])
def test_other_deaths_wait_until_the_engine_goes_on(play, how):
    async def story(run):
        await run.cluster.act(0, run.actions(STALL))
        await run.cluster.act(0, run.actions({"die": how}), background=True)
        await run.settle()
        assert run.seen(events.EngineDied) == []
        run.gates.open("thaw")
        await run.settle()
        assert run.seen(events.EngineDied) == [events.EngineDied(0, how)]

    play(story)


def test_engine_that_stalls_while_it_joins_joins_when_it_goes_on(play):
    async def story(run):
        await run.cluster.act(0, run.actions(STALL))
        await run.settle()
        assert len(run.peer.startup) == 1  # HELLO was gone already; INIT is not read
        assert run.peer.registrations == []
        run.gates.open("thaw")
        await run.settle()
        assert (len(run.peer.startup), len(run.peer.registrations)) == (2, 1)

    play(story, handshake=True, join=False)


@pytest.mark.parametrize("woken_before", [True, False])
def test_stalled_rank_keeps_the_wave_open_and_ends_it_late(play, woken_before):
    async def story(run):
        if not woken_before:
            await run.cluster.act(0, run.actions(STALL))
        await run.peer.add("a", rank=1, max_tokens=1)
        await run.peer.start_wave(0, exclude=1)
        await run.settle()
        if woken_before:
            await run.cluster.act(0, run.actions(STALL))
        run.gates.open("end")
        await run.settle()
        await run.cluster.idle()
        assert run.cluster.state(1)["requests"] == []
        assert "complete" not in [e.notice for e in run.seen(events.WaveNoticeSent)]
        assert [run.cluster.state(rank)["wave"] for rank in (0, 1)] == [0, 0]
        run.gates.open("thaw")
        await run.settle()

    specs = [on("add", {"stream": {"gate": "end"}})]
    run = play(story, ranks=(0, 1), coordinator=True, specs=specs)
    assert run.seen(events.WaveNoticeSent)[-1] == events.WaveNoticeSent(0, "complete", 0)
    assert run.cluster.state(1)["wave"] == 1


def test_notice_that_was_due_leaves_once_the_engine_goes_on_and_blocks_no_other(play):
    async def story(run):
        await run.cluster.act(0, run.actions(STALL))
        await run.cluster._handles[0].notice("complete", 7)
        await run.cluster._handles[1].notice("start", 3)
        await run.settle()
        assert run.seen(events.WaveNoticeSent) == [events.WaveNoticeSent(1, "start", 3)]
        run.gates.open("thaw")
        await run.settle()

    run = play(story, ranks=(0, 1), coordinator=True)
    assert run.seen(events.WaveNoticeSent)[1:] == [events.WaveNoticeSent(0, "complete", 7)]


def test_cluster_stops_with_a_stalled_engine(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        assert run.gates.waited_for() == ("thaw",)

    run = play(story, specs=[on("add", STALL, {"default": True})])
    assert run.gates.waited_for() == ()


def test_step_whose_stall_meets_an_open_gate_returns_once_all_is_done(play):
    async def story(run):
        run.gates.open("thaw")
        await run.cluster.act(0, run.actions(STALL, {"delay_ms": 5}, {"open": "end"}))
        assert run.gates.is_open("end")
        assert run.cluster.state(0)["stalled"] is False

    run = play(story)
    assert run.seen(events.EngineStalled) == []


def test_step_that_stalls_an_engine_that_is_stalled_is_not_waited_for(play):
    async def story(run):
        await run.cluster.act(0, run.actions(STALL))
        await run.cluster.act(0, run.actions({"stall": "again"}, {"open": "end"}))
        assert not run.gates.is_open("end")
        run.gates.open("thaw")
        await run.settle()
        assert run.cluster.state(0)["stalled"] is True
        run.gates.open("again")
        await run.cluster.idle()
        assert run.gates.is_open("end")

    run = play(story)
    assert [event.gate for event in run.seen(events.EngineStalled)] == ["thaw", "again"]


def test_task_that_is_no_plan_may_wait_and_makes_nobody_busy(play):
    async def story(run):
        activity = Activity(run.gates)
        holds = []
        waiting = asyncio.get_running_loop().create_task(activity.until(lambda: bool(holds)))
        await run.settle()
        assert not activity.busy
        await activity.idle()
        holds.append(True)
        activity.changed()
        await waiting
        assert not activity.busy

    play(story)


def test_engine_that_vanishes_while_it_is_stalled_handles_nothing_of_what_came(play):
    async def story(run):
        await run.cluster.act(0, run.actions(STALL))
        await run.peer.add("a")
        await run.peer.start_wave(0)
        await run.settle()
        await run.cluster.kill(0, "vanish")
        run.gates.open("thaw")
        await run.settle()

    run = play(story, coordinator=True)
    assert run.seen(events.AddSeen) == run.seen(events.StartWaveSeen) == []


def test_socket_that_is_closed_under_an_engine_ends_its_reading_and_no_more(play):
    async def story(run):
        sockets = run.cluster._handles[0].out.sockets
        for socket in (*sockets.inputs, sockets.coordinator_input):
            socket.close()
        await run.settle()
        await run.cluster.idle()
        assert run.cluster.has_joined(0)

    run = play(story, coordinator=True)
    assert run.cluster.failures == ()


def test_garbage_from_the_coordinator_is_reported_once(play):
    async def story(run):
        await run.peer.sockets["coordinator_input"].send([b"\xff", b"garbage"])
        await run.settle()

    run = play(story, coordinator=True)
    assert len(run.seen(events.UnknownSeen)) == 1
