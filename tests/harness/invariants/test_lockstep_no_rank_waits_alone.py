"""lockstep.no-rank-waits-alone says who hangs, and where the message went that would have helped."""

from __future__ import annotations

import pytest

from client.events import FirstRequestHandled, FirstRequestQueued, WaveNoticeHandled
from harness.invariants.lockstep_no_rank_waits_alone import NoRankWaitsAlone
from harness.trace.events import Fenced, Healed, RunEnded
from mock_engines.events import EngineDied, EngineStalled, RanksStuck, StartWaveIgnored
from tests.support.lockstep import IDLE, JOINED, born, exchange, moved, stuck, verdict
from tests.support.traces import (
    abort,
    add,
    held,
    reply,
    seen,
    start,
    unexercised,
    utility,
    violated,
    wave,
)

BEGIN = (*JOINED, *born())
RUNS = moved(0, running=True)
WAITS = stuck((0, "forward"))
END = (Fenced("end"), RunEnded(()))
HEALED = (Healed(), *IDLE)
RESUME = "resume_scheduler"


def judge(*events, **parts):
    return verdict(NoRankWaitsAlone, *BEGIN, *events, **parts)


def hangs(*events, last=WAITS, **parts):
    """What happened, then a last look that finds ranks stuck."""
    return judge(*events, *HEALED, last, *END, **parts)


def test_ranks_that_meet_hold():
    found = judge(exchange(), exchange(), *HEALED, *END, black=True)
    assert held(found)
    assert found.exercised == 2


def test_rank_that_waits_at_the_last_look_is_violated():
    found = hangs(RUNS, black=True)
    assert violated(found, 4, 8)
    assert found.message.startswith("engine 0 waits in device forward for engine 1: ")
    assert found.seen.splitlines()[:2] == [
        "engine 0: waits in it",
        "engine 1: waits for a message",
    ]


def test_rank_that_waited_at_an_earlier_look_holds():
    assert held(judge(*IDLE, WAITS, exchange(), *HEALED, *END))
    assert held(judge(*HEALED, WAITS, exchange(), *IDLE, *END))


def test_what_nothing_can_help_is_violated_at_once():
    crossed = stuck((0, "forward"), for_good=True)
    assert violated(judge(crossed, black=True), 4)


def test_ranks_in_two_operations_of_one_group_are_violated():
    both = stuck((0, "sync"), (1, "resume"), missing=(), group="host", for_good=True)
    found = judge(seen(1, 3, RESUME), both)
    assert found.message.startswith("engines 0, 1 wait in host sync and resume and never meet")
    assert violated(found, 4, 5)


def test_ranks_that_wait_for_each_other_in_two_groups_are_violated():
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "resume"),))
    found = judge(RUNS, *called, crossed)
    assert violated(found, 6, 7, 8)
    assert found.message == (
        "engine 0 waits in device forward for engine 1: engine 1 waits in host resume itself; "
        "engine 0 has not taken resume_scheduler (#6)"
    )


def test_peers_that_may_only_not_have_come_yet_are_not_blamed():
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(2, 2, RESUME))
    crossed = stuck(
        (0, "forward"), missing=(1, 2), for_good=True, elsewhere=((2, "host", "resume"),)
    )
    found = verdict(NoRankWaitsAlone, *BEGIN, *born(2), *called, crossed, ranks=(0, 1, 2))
    assert "engine 2 waits in host resume itself" in found.message
    assert "a rule" not in found.seen


def test_call_that_is_under_way_is_not_called_lost():
    called = (utility("r", "resume"), seen(1, 2, RESUME))
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "resume"),))
    assert judge(RUNS, *called, crossed).message.endswith(
        "resume_scheduler has not reached engine 0"
    )


def test_ranks_that_step_apart_tell_when_they_began():
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "sync"),))
    found = judge(RUNS, moved(1, running=True), exchange(), crossed)
    assert found.message.endswith("engine 1 waits in host sync itself")
    assert violated(found, 4, 5, 6, 7)
    assert found.seen.splitlines()[-3:] == [
        "  engine 1 began to run at #5",
        "  engine 0 began to run at #4",
        "  all met last in exchange 1 (#6)",
    ]


def test_stuck_ranks_without_a_last_look_are_not_judged():
    found = judge(*IDLE, WAITS, RunEnded(()))
    assert found.verdict == "not_judged"
    assert "before it could be seen" in found.reason


@pytest.mark.parametrize(
    ("event", "says"),
    [(EngineDied(1, "close"), "died (event 4)"), (EngineStalled(1, "g"), "stands still (event 4)")],
)
def test_peer_that_the_script_took_away_is_not_judged(event, says):
    for_good = stuck((0, "forward"), for_good=True)
    found = hangs(event, for_good)
    assert found.verdict == "not_judged"
    assert found.reason.endswith(f"for engine 1, which {says}")


def test_peer_that_never_joined_is_not_judged():
    found = verdict(NoRankWaitsAlone, JOINED[0], *born(0), *HEALED, WAITS, *END)
    assert found.reason.endswith("which has not joined")


def test_peer_that_was_shut_down_is_violated():
    found = hangs(moved(1, ending=True), EngineDied(1, "close"), RUNS)
    assert violated(found, 4, 5, 10)
    assert found.message.endswith("engine 1 was shut down and is gone (#5)")


# --- the way of the message that would have helped -----------------------------------------------


def why(*events, **parts):
    found = hangs(*events, **parts)
    assert found.verdict == "violated"
    _, _, lines = found.seen.partition("why:\n")
    return found.message.partition(": ")[2], [line.strip() for line in lines.splitlines()]


def test_wake_up_that_was_ignored_is_named_with_its_reason():
    ignored = StartWaveIgnored(1, 0, 0, "the rank is paused")
    short, lines = why(RUNS, start(0, 0), wave(1, 0, 0), ignored)
    assert (
        short
        == "engine 1 ignored START_DP_WAVE (wave 0, without engine 0) (#7): the rank is paused"
    )
    assert lines == [short]


def test_wake_up_that_left_the_rank_out_is_traced_to_who_asked():
    left_out = StartWaveIgnored(1, 0, 1, "it leaves this rank out")
    _, lines = why(RUNS, wave(1, 0, 1), left_out, release="0.32.0")
    assert lines[1:] == [
        "a frontend sent a request to engine 1 and had its peers woken",
        "that request never came to engine 1",
    ]
    _, lines = why(RUNS, start(1, 0), wave(1, 0, 1), left_out)
    assert lines[1:] == ["engine 1 had asked for it itself (#5)"]


def test_wake_up_that_a_rule_took_is_told():
    short, _ = why(RUNS, wave(1, 0, 0))
    assert short.endswith("reached engine 1 (#5), and a rule kept it from its loop")


def test_request_for_a_wake_up_that_was_taken_for_stale_is_told():
    handled = WaveNoticeHandled("start", 0, 0, 0, True, 0, True, False)
    short, lines = why(RUNS, start(0, 0), handled)
    assert short == "the coordinator, at wave 0 and running, took it for stale (#6)"
    assert lines[0] == "engine 0 asked for it: start_wave 0 (#5)"


def test_broadcast_that_did_not_arrive_is_told():
    handled = WaveNoticeHandled("start", 0, 0, 0, False, 0, True, True)
    short, _ = why(RUNS, start(0, 0), handled)
    assert short == "the coordinator passed it on (#6), and it was lost"
    short, _ = why(RUNS, start(0, 0), black=True)
    assert short == "no START_DP_WAVE followed start_wave 0 of engine 0"
    short, _ = why(RUNS, start(0, 0), wave(0, 0, 0), black=True)
    assert short == "START_DP_WAVE went out (#6), and not to all"


def test_first_request_without_a_broadcast_is_told():
    handled = FirstRequestHandled(0, 0, 0, True, 0, True, None, None)
    short, _ = why(RUNS, FirstRequestQueued(0, 0), handled, release="0.32.0")
    assert short.startswith("the coordinator, at wave 0 and running, sent nothing for the first")
    handled = FirstRequestHandled(0, 0, 0, False, 0, True, 0, 0)
    short, lines = why(RUNS, FirstRequestQueued(0, 0), handled, release="0.32.0")
    assert "sent START_DP_WAVE (wave 0, without engine 0) for the first request" in short
    assert lines[1] == "it never reached engine 1"


@pytest.mark.parametrize(
    ("events", "parts", "says"),
    [
        ((), {"release": "0.32.0"}, "the frontend never told its coordinator of a first request"),
        (
            (FirstRequestQueued(1, 0),),
            {"release": "0.32.0"},
            "the frontend told its coordinator last at #4: it took the engines for running",
        ),
        (
            (),
            {"topology": {"engine_release": "0.32.0"}},
            "the frontend leaves it to the engines: the two are of different releases",
        ),
    ],
)
def test_rank_for_which_nobody_asked_tells_whose_duty_it_was(events, parts, says):
    short, lines = why(*events, add(0, "a"), **parts)
    assert short == "nobody asked the coordinator to wake it"
    assert lines[2] == "engine 0 leaves it to the frontend to wake its peers for that"
    assert lines[-1] == says


def test_black_box_is_not_blamed_for_what_it_does_not_show():
    short, lines = why(add(0, "a"), release="0.32.0", black=True)
    assert short == "no engine asked for it, and no START_DP_WAVE came"
    assert len(lines) == 3


def test_paused_rank_that_tells_nobody_is_told():
    paused = moved(0, pause="new", ignores_starts=True)
    assert why(paused, add(0, "a"))[1][-1] == "engine 0 is paused, and tells nobody of it"


def test_rank_that_kept_its_duty_to_itself_is_told():
    assert why(add(0, "a"))[1] == [
        "nobody asked the coordinator to wake it",
        "engine 0 got an ADD of wave 0 (#4)",
        "engine 0 should have told the coordinator, and sent no start_wave",
    ]


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (add(0, "a"), "an ADD"),
        (wave(0, 0), "START_DP_WAVE (wave 0)"),
        (seen(0, 1, RESUME), RESUME),
    ],
)
def test_rank_that_runs_and_told_nobody_tells_what_made_it_run(event, says):
    line = f"engine 0 began to run at #5, after {says} (#4), and told nobody"
    assert why(event, RUNS)[1][-1] == line


def test_wake_up_that_was_lost_on_a_pause_is_told_with_what_the_frontend_believed_since():
    ignored = StartWaveIgnored(1, 0, 0, "the rank is paused")
    first = (FirstRequestQueued(0, 0), FirstRequestHandled(0, 0, 0, False, 0, True, 0, 0))
    resumed = (moved(1, pause="new", ignores_starts=True), ignored, moved(1))
    _, lines = why(*first, *resumed, add(0, "b"), release="0.32.0")
    assert lines[1:] == [
        "the coordinator sent it for a first request for engine 0 (#5)",
        "engine 1 was resumed only after that (#8)",
        "engine 0 got an ADD of wave 0 (#9)",
        "engine 0 leaves it to the frontend to wake its peers for that",
        "the frontend told its coordinator last at #4: it took the engines for running",
    ]


def test_rank_that_left_its_wave_is_told():
    left = (RUNS, moved(1, running=True), moved(1, wave=1))
    short, _ = why(*left)
    assert short == "engine 1 ended its wave (#6) while its peers went on"


def test_call_that_only_some_got_is_told():
    last = stuck((0, "resume"), group="host")
    called = (utility("r", "resume"), seen(0, 1, RESUME))
    short, lines = why(*called, last=last)
    assert short == "resume_scheduler never reached engine 1"
    assert lines[0] == "resume_scheduler of 'r' reached engine 0 (#5), which entered"


def test_call_that_a_rank_refused_is_told():
    last = stuck((0, "resume"), group="host")
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    short, lines = why(*called, reply(1, 2, "None", "still in flight", RESUME), last=last)
    assert short == "engine 1 refused resume_scheduler (#7)"
    assert lines[1] == "engine 1 answered #6: still in flight"


def test_call_that_a_rank_took_for_a_repetition_is_told():
    last = stuck((0, "resume"), group="host")
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    short, lines = why(
        *called, moved(1, running=True), reply(1, 2, "None", None, RESUME), last=last
    )
    assert short == "engine 1 answered resume_scheduler without entering (#8)"
    assert lines[1].endswith("it was running since #7, so it took the call for a repetition")


def test_call_that_a_rule_kept_is_told():
    last = stuck((0, "resume"), group="host")
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    short, _ = why(*called, last=last)
    assert short == "resume_scheduler reached engine 1 (#6), and a rule kept it"


def test_meeting_that_no_call_explains_is_told():
    short, _ = why(last=stuck((0, "barrier"), group="host"))
    assert short == "nothing brought engine 1 there"


def test_pause_that_only_some_got_is_told():
    told = moved(0, running=True, pause="all", pending_pause=True)
    called = (utility("p", "pause"), seen(0, 1, "pause_scheduler"))
    short, lines = why(*called, told)
    assert short == "pause_scheduler never reached engine 1"
    assert lines[0] == "pause_scheduler of 'p' reached engine 0 (#5), which runs"


def test_many_engines_in_one_state_are_one_line():
    ranks = tuple(range(12))
    states = ("engine 0: waits", *(f"engine {rank}: sleeps" for rank in ranks[1:]))
    last = RanksStuck(0, "device", ((0, "forward"),), ranks[1:], states, for_good=False)
    found = verdict(
        NoRankWaitsAlone,
        *born(*ranks),
        *HEALED,
        last,
        *END,
        ranks=ranks,
    )
    lines = found.seen.splitlines()
    assert lines[:2] == ["engine 0: waits", "engines 1, 2, 3, 4, 5, 6, 7, 8 …: sleeps"]


def test_run_without_a_meeting_is_not_judged():
    assert unexercised(judge(*HEALED, *END))


def test_request_that_was_aborted_before_a_step_is_told():
    left_out = StartWaveIgnored(1, 0, 1, "it leaves this rank out")
    taken = (add(1, "a"), abort(1, "b"), abort(1, "a"), left_out)
    _, lines = why(RUNS, wave(1, 0, 1), *taken, release="0.32.0")
    assert lines[-1] == "that request came (#6) and was aborted (#8) before a step"


def test_handling_of_other_notices_is_passed_over():
    earlier = WaveNoticeHandled("start", 0, 0, 0, False, 0, True, True)
    other = WaveNoticeHandled("start", 1, 0, 0, True, 0, True, False)
    late = WaveNoticeHandled("start", 0, 0, 0, True, 0, True, False)
    short, _ = why(RUNS, earlier, start(0, 0), other, late)
    assert short == "the coordinator, at wave 0 and running, took it for stale (#8)"


def test_pause_is_found_behind_later_calls():
    told = moved(0, running=True, pause="all", pending_pause=True)
    called = (utility("p", "pause"), seen(0, 1, "pause_scheduler"), seen(0, 9, "is_sleeping"))
    assert why(*called, told)[0] == "pause_scheduler never reached engine 1"


def test_pause_that_no_call_explains_is_looked_for_as_a_wake_up():
    told = moved(0, running=True, pause="all", pending_pause=True)
    assert why(told)[1] == [
        "nobody asked the coordinator to wake it",
        "engine 0 began to run at #4, and told nobody",
    ]


def test_many_different_states_are_cut():
    ranks = tuple(range(12))
    states = tuple(f"engine {rank}: at wave {rank}" for rank in ranks)
    last = RanksStuck(0, "device", ((0, "forward"),), ranks[1:], states, for_good=False)
    found = verdict(NoRankWaitsAlone, *born(*ranks), *HEALED, last, *END, ranks=ranks)
    assert found.seen.splitlines()[8] == "… and 4 more states"
