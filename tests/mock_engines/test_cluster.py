"""Clusters: receiving, fences, idleness, waves, death and return."""

import asyncio

import pytest

from client.protocol.ids import FENCE_METHOD
from client.protocol.profiles import profile_for
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from mock_engines import aio, events
from mock_engines.behaviours.model import EngineSpec
from mock_engines.cluster import Cluster, JoinAddresses, ScriptError


class Lifo:
    def choose(self, n, labels=None):
        return n - 1


def notices(run):
    return [(e.engine, e.notice, e.wave) for e in run.seen(events.WaveNoticeSent)]


def test_fence_is_answered_past_every_rule_without_an_event(play):
    async def story(run):
        before = len(run.events)
        await run.peer.utility(FENCE_METHOD)
        await run.peer.utility("collective_rpc", FENCE_METHOD, None, [], {})
        await run.settle()
        assert len(run.events) == before

    rules = [{"on": "utility", "do": [{"hang": True}]}]
    run = play(story, specs=[{"rules": rules}])
    assert run.peer.replies() == [(1, None, True), (2, None, True)]


def test_unknown_bytes_are_reported_and_change_nothing(play):
    async def story(run):
        await run.peer.send(0, [b"\x07", b"\x90"])
        await run.peer.send(0, [b"\x03", b"\xc1"])
        await run.peer.send(0, [b"\x02", b"\x92\x00\xc0"])
        await run.peer.sockets["coordinator_input"].send([b"\x01", b"\x90"])
        await run.settle()
        await run.cluster.idle()

    run = play(story, coordinator=True)
    details = sorted(event.detail for event in run.seen(events.UnknownSeen))
    assert len(details) == 4
    assert details[:2] == ["Abort on the coordinator socket", "START_DP_WAVE on the input socket"]
    assert run.cluster.failures == ()


def test_add_shows_extra_arguments_in_one_stable_form(play):
    from client.protocol.messages import EngineCoreRequest

    async def story(run):
        for extra in ({"b": 1, "a": [2]}, {"a": [2], "b": 1}):
            request = EngineCoreRequest(request_id="r", sampling_params={"extra_args": extra})
            await run.peer.send(0, run.peer.codec.encode_add(request, aux=[b"x" * 300]))
        await run.settle()

    run = play(story)
    first, second = run.seen(events.AddSeen)
    assert first.extra_args == second.extra_args == "{'a': [2], 'b': 1}"
    assert first.aux_bytes == (300,)


def test_idle_reports_each_living_engine_with_its_open_requests(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        await run.cluster.kill(1, "close")
        await run.cluster.idle()

    run = play(story, ranks=(0, 1), specs=[{"rules": [{"on": "add", "do": {"hang": "g"}}]}])
    assert run.seen(events.EngineIdle) == [events.EngineIdle(0, ("a-0123abcd",))]


def test_idle_waits_for_those_whom_an_opened_gate_has_just_released(play):
    async def story(run):
        await run.peer.utility("is_sleeping")
        await run.settle()
        run.gates.open("g")
        await run.cluster.idle()
        assert len(run.seen(events.UtilityReplySent)) == 1

    rules = [{"on": "utility", "do": [{"hang": "g"}, {"default": True}]}]
    play(story, specs=[{"rules": rules}], chooser=Lifo())


def test_act_waits_for_its_actions_unless_told_to_run_in_the_background(play):
    async def story(run):
        await run.cluster.act(0, run.actions({"hang": "g"}, {"stats": {}}), background=True)
        await run.cluster.idle()
        assert run.seen(events.StatsSent) == []
        run.gates.open("g")
        await run.cluster.act(0, run.actions({"hang": "g"}, {"stats": {"running": 1}}))
        await run.cluster.idle()
        assert len(run.seen(events.StatsSent)) == 2

    play(story)


def test_action_that_needs_a_message_is_refused_before_anything_happens(play):
    async def story(run):
        with pytest.raises(ScriptError, match="'reply' is for utility"):
            await run.cluster.act(0, run.actions({"stats": {}}, {"reply": 1}))
        with pytest.raises(ScriptError, match=r"no engine 5 \(ranks: 0\)"):
            await run.cluster.act(5, [])

    run = play(story)
    assert run.seen(events.StatsSent) == []


def test_failure_in_an_engine_s_task_is_raised_by_idle_once(play):
    async def story(run):
        await run.peer.utility("is_sleeping")
        await run.settle()
        with pytest.raises(ScriptError, match="no coordinator"):
            await run.cluster.idle()

    rules = [{"on": "utility", "do": [{"hang": "g"}, {"wave_complete": 1}]}]

    async def open_first(run):
        run.gates.open("g")
        await story(run)

    run = play(open_first, specs=[{"rules": rules}])
    assert len(run.cluster.failures) == 1


def test_wave_of_a_request_completes_when_all_ranks_were_woken(play):
    async def story(run):
        await run.peer.add("a", rank=1)
        await run.settle()
        assert notices(run) == [(1, "start", 0)]
        await run.peer.start_wave(0, exclude=1)
        await run.settle()

    run = play(story, ranks=(0, 1), coordinator=True)
    assert notices(run) == [(1, "start", 0), (0, "start", 0), (0, "complete", 0)]
    assert [run.cluster.state(rank)["wave"] for rank in (0, 1)] == [1, 1]


def test_script_mode_sends_no_notice_of_its_own(play):
    async def story(run):
        await run.peer.add("a", rank=1)
        await run.peer.start_wave(0, exclude=1)
        await run.settle()

    run = play(story, ranks=(0, 1), coordinator=True, waves="script")
    assert notices(run) == []


def test_lost_wake_up_keeps_the_wave_open(play):
    async def story(run):
        await run.peer.add("a", rank=1)
        await run.peer.start_wave(0, exclude=1)
        await run.settle()
        assert run.cluster.state(1)["running"] is True

    specs = [{"engine": 0, "rules": [{"on": "start_wave", "do": {"drop": True}}]}]
    run = play(story, specs=specs, ranks=(0, 1), coordinator=True)
    assert notices(run) == [(1, "start", 0)]


def test_stale_add_at_an_idle_engine_starts_the_current_wave(play):
    async def story(run):
        for wave in (0, 1):
            await run.peer.start_wave(wave)
            await run.settle()
        await run.peer.add("a", rank=0, wave=0)
        await run.settle()

    run = play(story, ranks=(0, 1), coordinator=True, release="0.28.0")
    assert notices(run) == [(0, "complete", 0), (0, "complete", 1), (0, "start", 2)]


def test_dropped_add_is_no_work_for_the_wave(play):
    async def story(run):
        await run.peer.start_wave(0)
        await run.settle()
        await run.peer.add("a", wave=0)
        await run.settle()

    specs = [{"rules": [{"on": "add", "do": {"drop": True}}]}]
    run = play(story, specs=specs, coordinator=True, release="0.28.0")
    assert notices(run) == [(0, "complete", 0)]


@pytest.mark.parametrize("how", ["close", "sentinel", "vanish"])
def test_engine_returns_with_its_identity_and_an_empty_state(play, how):
    async def story(run):
        await run.peer.utility("add_lora", ["x", 1, "/p"])
        await run.settle()
        await run.cluster.kill(0, how)
        await run.cluster.kill(0, how)
        await run.settle()
        assert not run.cluster.has_joined(0)
        await run.cluster.rejoin(0)
        await run.settle()
        assert run.cluster.state(0)["loras"] == []
        await run.peer.add("b", max_tokens=1)
        await run.settle()
        await run.cluster.idle()

    run = play(story)
    assert [identity for identity, _ in run.peer.registrations] == [b"\x00\x00"] * 2
    assert len(run.seen(events.EngineDied)) == 1
    assert run.peer.rows("b")[-1][2] == "length"


def test_engine_that_dies_while_it_joins_is_not_waited_for(play):
    async def story(run):
        await run.settle()
        await run.cluster.kill(0, "close")
        await run.cluster.joined()
        assert not run.cluster.has_joined(0)

    run = play(story, coordinator=True, join=False)
    assert run.seen(events.EngineJoined) == []


def test_rules_go_on_counting_after_a_return(play):
    async def story(run):
        for _ in range(2):
            await run.peer.add("a", max_tokens=1)
            await run.settle()
            if not run.cluster.has_joined(0):
                await run.cluster.rejoin(0)
                await run.settle()

    run = play(story, specs=[{"rules": [{"on": "add", "nth": 1, "do": {"die": "close"}}]}])
    assert [row[2] for row in run.peer.rows()] == ["length"]


def test_living_engine_that_reconnects_keeps_its_state(play):
    async def story(run):
        await run.peer.utility("add_lora", ["x", 1, "/p"])
        await run.settle()
        await run.cluster.rejoin(0)
        await run.settle()
        assert run.cluster.state(0)["loras"] == [1]
        await run.peer.utility("list_loras")
        await run.settle()

    run = play(story, coordinator=True)
    assert run.peer.replies()[-1] == (2, None, [1])
    assert run.peer.subscriptions.count([b"\x01"]) == 2


def test_returned_engine_takes_part_in_waves_again(play):
    async def story(run):
        await run.cluster.kill(1, "close")
        await run.cluster.rejoin(1)
        await run.settle()
        await run.peer.add("a", rank=1)
        await run.peer.start_wave(0, exclude=1)
        await run.settle()

    run = play(story, ranks=(0, 1), coordinator=True, release="0.28.0")
    assert notices(run) == [(0, "complete", 0)]


def test_stop_ends_hanging_engines_and_may_be_called_twice(play):
    async def story(run):
        await run.peer.utility("is_sleeping")
        await run.settle()
        await run.cluster.stop()

    play(story, specs=[{"rules": [{"on": "utility", "do": {"hang": True}}]}])


@pytest.mark.parametrize(
    ("ranks", "specs", "text"),
    [
        ([65536], [], "two-byte engine identity limit"),
        ([0], [{"engine": 3}], "engine 3"),
        ([0], [{"rules": [{"on": "add", "do": {"reply": 1}}]}], "'reply' is for utility"),
    ],
)
def test_impossible_cluster_is_refused_when_it_is_made(ranks, specs, text):
    transport = SimTransport(SimLoop(Lifo()))
    addresses = JoinAddresses(handshake=transport.endpoint("h"))
    wanted = [EngineSpec.model_validate(spec) for spec in specs]
    with pytest.raises(ValueError, match=text):
        Cluster(transport, profile_for("0.33.0"), ranks, wanted, addresses)


def test_same_story_gives_the_same_events_under_the_same_schedule(play):
    async def story(run):
        for number in range(3):
            await run.peer.add(f"r{number}", rank=number % 2)
        await run.peer.start_wave(0, exclude=0)
        await run.settle()

    runs = [play(story, ranks=(0, 1), coordinator=True, chooser=Lifo()) for _ in range(2)]
    assert runs[0].events == runs[1].events


def test_what_startup_raises_is_raised_by_joined_and_not_again(play):
    async def story(run):
        with pytest.raises(ScriptError, match="engine 0 steps with others, which needs a coord"):
            await run.cluster.joined()
        assert not run.cluster.has_joined(0)
        await run.cluster.idle()

    run = play(story, waves="lockstep", join=False)
    assert len(run.cluster.failures) == 1


def test_failure_of_startup_that_idle_has_raised_is_raised_by_joined_all_the_same(play):
    async def story(run):
        await run.settle()
        with pytest.raises(ScriptError):
            await run.cluster.idle()
        with pytest.raises(ScriptError):
            await run.cluster.joined()

    play(story, waves="lockstep", join=False)


def slow_notices(run, fails=False):
    """Wave notices of engine 0 that wait for a gate; returns those that began."""
    begun = []

    async def notice(kind, wave):
        begun.append((kind, wave))
        await run.gates.wait("notice")
        if fails:
            raise ScriptError("no notice today")

    run.cluster._handles[0].notice = notice
    return begun


def test_idle_waits_for_wave_notices_that_are_being_sent(play):
    async def story(run):
        begun = slow_notices(run)
        await run.peer.add("a", max_tokens=1)
        await run.settle()
        assert begun == [("start", 0)]
        idle = asyncio.get_running_loop().create_task(run.cluster.idle())
        await run.settle()
        assert not idle.done()
        run.gates.open("notice")
        await idle

    play(story, coordinator=True)


def test_stop_does_not_wait_for_wave_notices_that_are_being_sent(play):
    async def story(run):
        begun = slow_notices(run)
        await run.peer.add("a", max_tokens=1)
        await run.settle()
        await run.cluster.stop()
        assert begun == [("start", 0)]

    run = play(story, coordinator=True)
    assert run.cluster.failures == ()


def test_wave_notice_that_cannot_be_sent_is_a_failure_of_the_run(play):
    async def story(run):
        slow_notices(run, fails=True)
        await run.peer.add("a", max_tokens=1)
        await run.settle()
        run.gates.open("notice")
        await run.settle()
        with pytest.raises(ScriptError, match="no notice today"):
            await run.cluster.idle()

    play(story, coordinator=True)


def test_wave_notice_of_an_engine_that_is_gone_is_not_sent(play):
    async def story(run):
        await run.cluster.kill(0, "close")
        await run.cluster._handles[0].notice("complete", 3)
        await run.settle()

    run = play(story, coordinator=True)
    assert notices(run) == []


def test_engine_that_never_learnt_where_to_connect_cannot_come_back(play):
    async def story(run):
        await run.settle()
        await run.cluster.kill(0, "close")
        with pytest.raises(ScriptError, match="engine 0 never learnt where to connect"):
            await run.cluster.rejoin(0)

    play(story, handshake="by hand", join=False)


def test_engine_that_is_dead_is_not_removed_a_second_time(play):
    async def story(run):
        await run.cluster.kill(0, "close")
        await run.cluster._handles[0].remove()

    run = play(story)
    assert run.seen(events.EngineRemoved) == []


def test_engine_in_a_process_of_its_own_cannot_be_started_for_another_size(play):
    async def story(run):
        class Elsewhere:
            busy = False

            async def stop(self):
                """Nothing to stop."""

        run.cluster._handles[0] = Elsewhere()
        with pytest.raises(ScriptError, match="engine 0 is a process of its own"):
            await run.cluster.grow([0], 1)

    play(story)


def shrinks(run):
    """Both engines are told that only the first is to be left; the first still has to do."""

    async def tell():
        await run.cluster.act(0, run.actions({"delay_ms": 1000}), background=True)
        for rank, place in ((0, -1), (1, -2)):
            request = {"new_data_parallel_size": 1, "new_data_parallel_rank": place}
            await run.peer.utility("reinitialize_distributed", request, rank=rank)
        await run.peer.utility("commit_prepared_elastic_ep", rank=0)
        while run.cluster._elastic.task is None:
            await aio.next_turn()

    return tell()


def test_idle_waits_for_a_change_of_the_number_of_engines(play):
    async def story(run):
        async def slow(_notice):
            await run.gates.wait("notice")

        run.cluster._handles[0].elastic_notice = slow
        await shrinks(run)
        assert run.seen(events.GroupSwitched) == []
        idle = asyncio.get_running_loop().create_task(run.cluster.idle())
        while not run.gates.waiting("notice"):
            await aio.pause_for(0.1)
        await run.settle()
        assert [event.ranks for event in run.seen(events.GroupSwitched)] == [(0,)]
        assert not idle.done()  # the engines are, and their change is not
        run.gates.open("notice")
        await idle
        assert run.cluster._elastic.task is None

    play(story, ranks=(0, 1), elastic=True)


def test_stop_does_not_wait_for_a_change_of_the_number_of_engines(play):
    async def story(run):
        await shrinks(run)
        start = run.now()
        await run.cluster.stop()
        assert run.now() == start
        assert run.seen(events.GroupSwitched) == []

    run = play(story, ranks=(0, 1), elastic=True)
    assert run.cluster.failures == ()
