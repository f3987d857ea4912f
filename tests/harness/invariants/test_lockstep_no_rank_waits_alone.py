"""lockstep.no-rank-waits-alone says who hangs, and where the message went that would have helped."""

from __future__ import annotations

import re

import pytest

from client.events import FirstRequestHandled, FirstRequestQueued, WaveNoticeHandled
from harness.invariants.lockstep_no_rank_waits_alone import NoRankWaitsAlone
from harness.trace.events import Fenced, Healed, RunEnded
from mock_engines.events import (
    EngineDied,
    EngineResumed,
    EngineStalled,
    GroupSwitched,
    RanksStuck,
    StartWaveIgnored,
)
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
    assert violated(found, 4, 6, 7, 8)
    assert found.message == (
        "engine 0 waits in device forward for engine 1: engine 1 waits in host resume; "
        "engine 0 has not taken resume_scheduler (#6)"
    )


def test_peers_that_may_only_not_have_come_yet_are_not_blamed():
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(2, 2, RESUME))
    crossed = stuck(
        (0, "forward"), missing=(1, 2), for_good=True, elsewhere=((2, "host", "resume"),)
    )
    found = verdict(NoRankWaitsAlone, *BEGIN, *born(2), *called, crossed, ranks=(0, 1, 2))
    assert "engine 2 waits in host resume" in found.message
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
    assert found.message.endswith("engine 1 waits in host sync")
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
    _, _, lines = found.seen.partition("because:\n")
    return found.message.partition(": ")[2], [line.strip() for line in lines.splitlines()]


def test_wake_up_that_was_ignored_is_named_with_its_reason():
    ignored = StartWaveIgnored(1, 0, 0, "the rank is paused")
    short, lines = why(RUNS, start(0, 0), wave(1, 0, 0), ignored)
    assert (
        short
        == "engine 1 ignored START_DP_WAVE (wave 0, to all but engine 0) (#7): the rank is paused"
    )
    assert lines == [short]


def test_wake_up_that_left_the_rank_out_is_traced_to_who_asked():
    left_out = StartWaveIgnored(1, 0, 1, "it leaves this rank out")
    _, lines = why(RUNS, wave(1, 0, 1), left_out, release="0.32.0")
    assert lines[1:] == [
        "a frontend sent a request to engine 1 and had its peers woken: it never came to engine 1",
    ]
    _, lines = why(RUNS, start(1, 0), wave(1, 0, 1), left_out)
    assert lines[1:] == ["engine 1 had asked for it itself (#5)"]


def test_wake_up_that_a_rule_took_is_told():
    short, _ = why(RUNS, wave(1, 0, 0))
    assert short.endswith("reached engine 1 (#5), and a rule kept it from its loop")


def test_request_for_a_wake_up_that_was_taken_for_stale_is_told():
    handled = WaveNoticeHandled("start", 0, 0, 0, True, 0, True, False)
    short, lines = why(RUNS, start(0, 0), handled)
    assert short == (
        "engine 0 asked for wave 0 (#5), and the coordinator, at wave 0 and running, sent nothing "
        "for it (#6)"
    )
    assert lines[0] == "engine 0 asked for it: start_wave 0 (#5)"


def test_broadcast_that_did_not_arrive_is_told():
    handled = WaveNoticeHandled("start", 0, 0, 0, False, 0, True, True)
    short, _ = why(RUNS, start(0, 0), handled)
    assert short.endswith("and the coordinator passed it on (#6), and it was lost")
    short, _ = why(RUNS, start(0, 0), black=True)
    assert short.endswith("and no START_DP_WAVE followed start_wave 0 of engine 0")
    short, _ = why(RUNS, start(0, 0), wave(0, 0, 0), black=True)
    assert short.endswith("and START_DP_WAVE went out (#6), and not to all")


def test_first_request_without_a_broadcast_is_told():
    handled = FirstRequestHandled(0, 0, 0, True, 0, True, None, None)
    short, _ = why(RUNS, FirstRequestQueued(0, 0), handled, release="0.32.0")
    assert short.startswith("the coordinator, at wave 0 and running, sent nothing for the first")
    handled = FirstRequestHandled(0, 0, 0, False, 0, True, 0, 0)
    short, lines = why(RUNS, FirstRequestQueued(0, 0), handled, release="0.32.0")
    assert "sent START_DP_WAVE (wave 0, to all but engine 0) for the first request" in short
    assert lines[1] == "it never reached engine 1"


@pytest.mark.parametrize(
    ("events", "parts", "title", "says"),
    [
        (
            (),
            {"release": "0.32.0"},
            "the frontend told its coordinator of no first request (ADD #4)",
            "the frontend told its coordinator of no first request (ADD #4)",
        ),
        (
            (FirstRequestQueued(1, 0),),
            {"release": "0.32.0"},
            "the frontend told its coordinator nothing of the ADD at engine 0 (#5): it took the "
            "engines for running",
            "the frontend told its coordinator last at #4, before that, and took the engines for "
            "running since",
        ),
        (
            (),
            {"topology": {"engine_release": "0.32.0"}},
            "the frontend (0.33.0) leaves it to the engines to have peers woken, and engine 0 "
            "(0.32.0) to the frontend",
            "a frontend of 0.33.0 leaves it to the engines",
        ),
    ],
)
def test_rank_for_which_nobody_asked_tells_whose_duty_it_was(events, parts, title, says):
    short, lines = why(*events, add(0, "a"), **parts)
    assert short == title
    assert lines[0].endswith("and leaves it to the frontend to have its peers woken")
    assert lines[-1] == says


def test_frontend_that_told_of_a_first_request_in_vain_is_told():
    short, _ = why(add(0, "a"), FirstRequestQueued(0, 0), release="0.32.0")
    assert short == "the frontend told its coordinator of a first request (#5), in vain"


def test_wake_up_of_a_wave_that_is_over_is_not_blamed_for_what_a_later_one_misses():
    late = StartWaveIgnored(1, 0, None, "it is of a past wave")
    ahead = (moved(0, wave=2), moved(1, wave=2))
    short, _ = why(wave(1, 0), late, *ahead, add(0, "a", wave=2))
    assert short == "engine 0 sent no start_wave for its ADD of wave 2 (#8)"
    # The caller is behind: what the rank ignored is past for the rank, though not for the caller.
    behind = (moved(0, wave=1), moved(1, wave=3), moved(0, running=True, wave=1))
    late = StartWaveIgnored(1, 1, 1, "it leaves this rank out")
    short, lines = why(wave(1, 1, 1), late, *behind)
    assert short == "engine 0 began to run at #8, and sent no start_wave"
    assert not any("ignored" in line for line in lines)


def test_rank_that_a_wake_up_of_a_past_wave_made_run_is_told():
    short, lines = why(
        moved(0, wave=1), moved(1, wave=1), wave(0, 0), moved(0, running=True, wave=1)
    )
    assert short == (
        "engine 0, in wave 1, began to run (#7) by a START_DP_WAVE of wave 0 (#6), which is over"
    )
    assert lines == [short]
    found = hangs(moved(0, wave=1), moved(1, wave=1), wave(0, 0), moved(0, running=True, wave=1))
    assert found.expected.endswith("engine 0 ignores START_DP_WAVE of a wave that is over")


def test_ranks_in_different_waves_are_told_with_the_change_that_brought_them_together():
    switch = GroupSwitched(1, (0,), (0, 1), running=False, wave=3, step=0)
    handled = WaveNoticeHandled("start", 1, 1, 3, False, 3, False, False)
    last = stuck((1, "forward"), missing=(0,))
    running = moved(1, running=True, wave=1)
    found = hangs(moved(0, wave=3), switch, running, start(1, 1), handled, last=last)
    assert "engine 0 waits" not in found.message
    assert found.message.endswith("sent nothing for it as of a past wave (#8)")
    assert found.expected.endswith("engine 1 in wave 3, like engine 0")
    assert "engine 1 is in wave 1 (#6), and engine 0 in wave 3 (#4)" in found.seen
    assert (
        "engine 1 came into the group by a change of its size (#5), in which all agreed on wave 3"
        in found.seen
    )


def test_pause_that_a_peer_has_not_answered_is_told_with_the_wake_up_that_it_made_ignored():
    ignored = StartWaveIgnored(1, 0, 0, "the rank is paused")
    called = (utility("p", "pause"), seen(0, 1, "pause_scheduler"), seen(1, 2, "pause_scheduler"))
    answered = reply(1, 2, "None", None, "pause_scheduler")
    _, lines = why(*called, RUNS, answered, start(0, 0), wave(1, 0, 0), ignored)
    came = "pause_scheduler of 'p' had come to engine 1 (#6), answered at #8"
    assert f"{came}; engine 0 has not taken pause_scheduler (#5)" in lines
    _, lines = why(
        *called,
        RUNS,
        answered,
        reply(0, 1, "None", None, "pause_scheduler"),
        start(0, 0),
        wave(1, 0, 0),
        ignored,
    )
    assert f"{came}; engine 0 had answered it, too" in lines
    woken = moved(1)
    _, lines = why(*called, moved(1, pause="new"), answered, woken, RUNS, start(0, 0), ignored)
    assert not any("pause_scheduler" in line for line in lines)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({}, "not paused when resume_scheduler came (#6): there was nothing to resume"),
        ({"pause": "new"}, "paused when resume_scheduler came (#6)"),
        (
            {"pause": "new", "pending_pause": True},
            "told to pause, and not all had agreed yet when resume_scheduler came (#6)",
        ),
    ],
)
def test_call_in_which_a_rank_waits_is_told_with_the_state_in_which_it_came(state, says):
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "resume"),))
    found = judge(RUNS, moved(1, **state), seen(1, 2, RESUME), wave(1, 0, 0), crossed)
    assert f"engine 1 was {says}" in found.seen
    assert "START_DP_WAVE reached engine 1 after it (#7), and waits" in found.seen
    assert "engine 0 began to run at #4" in found.seen


@pytest.mark.parametrize(
    ("lies", "says"),
    [((), False), (("START_DP_WAVE 1",), False), (("START_DP_WAVE 0",), True)],
)
def test_wake_up_is_told_to_lie_in_the_mailbox_only_where_it_does(lies, says):
    log = ((0, ("dummy",), ()), (1, ("took UTILITY 2 resume_scheduler", "resume"), lies))
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "resume"),), log=log)
    found = judge(RUNS, moved(1), seen(1, 2, RESUME), wave(1, 0, 0), crossed)
    told = "START_DP_WAVE reached engine 1 after it (#7), and lies untaken in its mailbox"
    assert (told in found.seen) is says
    assert "START_DP_WAVE reached engine 1 after it (#7), and waits" not in found.seen
    # Lying there is evidence, too.
    assert (7 in found.witness) is says


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (((0, ("took UTILITY 1 resume_scheduler",), ()),), "took {}, and has not answered it"),
        (((0, ("dummy",), ("UTILITY 1 resume_scheduler",)),),
         "has not taken {}: it lies in its mailbox, and the rank takes nothing while it waits"),
        (((0, ("dummy",), ()),), "has not taken {}: it takes nothing while it waits"),
    ],
)  # fmt: skip
def test_call_that_one_rank_has_not_answered_is_told_as_taken_or_as_lying_there(log, says):
    calls = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    crossed = stuck((0, "forward"), elsewhere=((1, "host", "resume"),), log=log)
    found = hangs(RUNS, *calls, last=crossed)
    assert f"engine 0 {says.format('resume_scheduler (#6)')}" in found.seen


def test_nothing_is_said_of_a_message_that_a_log_may_have_had():
    """That a log does not name it shows nothing once messages were dropped from it."""
    calls = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    log = ((0, ("dummy", "took ABORT a"), ()), (1, ("took ABORT a",), ()))
    last = stuck((0, "resume"), group="host", log=log, dropped=((1, 7),))
    unknown = (
        "whether it took it is not known: of the messages that it took the first 7 are not kept"
    )
    short, lines = why(*calls, last=last)
    assert short == "engine 1 got resume_scheduler (#6), and has not answered it"
    assert lines[1] == f"{short}; {unknown}"
    last = stuck((0, "forward"), log=log, dropped=((1, 7),))
    short, lines = why(RUNS, wave(1, 0, 0), last=last)
    assert short.endswith(f"reached engine 1 (#5), and did not make it run; {unknown}")
    assert "rule" not in short
    # One rank's log says nothing of another's.
    last = stuck((0, "forward"), log=log, dropped=((0, 7),))
    assert why(RUNS, wave(1, 0, 0), last=last)[0].endswith("a rule kept it from its loop")


def test_call_whose_log_has_lost_messages_is_told_where_it_is_still_named():
    calls = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    for log, says in (
        ((1, ("took UTILITY 2 resume_scheduler",), ()), "engine 1 took resume_scheduler (#6)"),
        ((1, (), ("UTILITY 2 resume_scheduler",)), "engine 1 has not taken resume_scheduler (#6)"),
    ):
        last = stuck((0, "resume"), group="host", log=(log,), dropped=((1, 7),))
        assert why(*calls, last=last)[0].startswith(says)


def test_names_and_failures_from_the_wire_make_no_line_of_their_own():
    forged = "sleep\n  engine 7 did it" + "x" * 500_000
    paused = moved(0, running=True, pending_pause=True)
    found = hangs(RUNS, utility("p", "pause"), seen(0, 1, forged), paused)
    assert "'sleep\\n  engine 7 did it" in found.seen
    last = stuck((0, "resume"), group="host")
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    refused = hangs(*called, reply(1, 2, "None", forged, RESUME), last=last)
    assert "'sleep\\n  engine 7 did it" in refused.seen
    for each in (found, refused):
        assert "\n  engine 7 did it" not in each.seen
        assert max(map(len, each.seen.splitlines())) < 1_500


def test_number_in_a_failure_from_the_wire_is_no_event():
    last = stuck((0, "resume"), group="host")
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    forged = f"see #99999999, #{'9' * 5_000} and #\u0663"
    found = hangs(*called, reply(1, 2, "None", forged, RESUME), last=last)
    assert "see #99999999" in found.seen
    assert max(found.witness) == 11  # the look itself


def test_wake_up_in_the_mailbox_of_a_rank_that_sleeps_is_not_blamed_on_a_rule():
    for lies, fate in (
        (("START_DP_WAVE 0",), "lies untaken in its mailbox"),
        ((), "a rule kept it from its loop"),
    ):
        last = stuck((0, "forward"), log=((0, ("forward",), ()), (1, (), lies)))
        found = hangs(RUNS, wave(1, 0, 0), last=last)
        assert f"reached engine 1 (#5), and {fate}" in found.seen


def test_table_of_operations_stands_between_states_and_reasons():
    last = stuck((0, "forward"), log=((0, ("2 forward",), ()), (1, ("dummy",), ())), met="resume")
    lines = hangs(RUNS, last=last).seen.splitlines()
    assert lines[2] == "operations of each engine since all met in resume:"
    assert lines[4].split() == ["0", "2", "-", "forward", "-", "-"]
    assert lines[6] == "because:"


def test_call_that_came_behind_a_pause_without_an_answer_is_told():
    pause = (utility("p", "pause"), seen(0, 1, "pause_scheduler"), seen(1, 2, "pause_scheduler"))
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "resume"),))
    found = judge(RUNS, *pause, seen(1, 4, RESUME), crossed)
    late = (
        "engine 1 had not answered pause_scheduler of 'p' (#7) yet when resume_scheduler came (#8)"
    )
    assert late in found.seen
    assert "engine 0 has not answered pause_scheduler of 'p' (#6)" in found.seen


def test_events_that_a_report_names_are_its_witness():
    called = (utility("p", "pause"), seen(0, 1, "pause_scheduler"), seen(1, 2, "pause_scheduler"))
    answered = reply(1, 2, "None", None, "pause_scheduler")
    ignored = StartWaveIgnored(1, 0, 0, "the rank is paused")
    found = hangs(*called, RUNS, answered, start(0, 0), wave(1, 0, 0), ignored)
    named = {int(seq) for seq in re.findall(r"#(\d+)", found.seen)}
    assert {5, 6, 8} <= named
    assert named <= {*found.witness}


def test_black_box_is_not_blamed_for_what_it_does_not_show():
    short, lines = why(add(0, "a"), release="0.32.0", black=True)
    assert short == "no START_DP_WAVE came for the ADD at engine 0 (#4)"
    assert len(lines) == 1


def test_paused_rank_that_tells_nobody_is_told():
    paused = moved(0, pause="new", ignores_starts=True)
    assert why(paused, add(0, "a"))[1][-1] == (
        "engine 0 is paused, and sent no start_wave for its ADD (#5)"
    )


def test_rank_that_kept_its_duty_to_itself_is_told():
    assert why(add(0, "a"))[1] == [
        "engine 0 got an ADD of wave 0 (#4)",
        "engines of 0.33.0 have their peers woken themselves, by start_wave",
        "engine 0 sent no start_wave for its ADD of wave 0 (#4)",
    ]


@pytest.mark.parametrize(
    ("event", "says", "missing"),
    [
        (add(0, "a"), "an ADD", "sent no start_wave"),
        (wave(0, 0), "START_DP_WAVE (wave 0)", "no START_DP_WAVE came to engine 1"),
        (seen(0, 1, RESUME), RESUME, "sent no start_wave"),
    ],
)
def test_rank_that_runs_alone_tells_what_made_it_run_and_what_did_not_come(event, says, missing):
    line = f"engine 0 began to run at #5, after {says} (#4), and {missing}"
    assert why(event, RUNS)[1][-1] == line


def test_wake_up_that_was_lost_on_a_pause_is_told_with_what_the_frontend_believed_since():
    ignored = StartWaveIgnored(1, 0, 0, "the rank is paused")
    first = (FirstRequestQueued(0, 0), FirstRequestHandled(0, 0, 0, False, 0, True, 0, 0))
    resumed = (moved(1, pause="new", ignores_starts=True), ignored, moved(1))
    _, lines = why(*first, *resumed, add(0, "b"), release="0.32.0")
    assert lines[1:] == [
        "the coordinator sent it for a first request for engine 0 (#5)",
        "engine 1 was resumed only after that (#8)",
        "engine 0 got an ADD of wave 0 (#9), and leaves it to the frontend to have its peers woken",
        "the frontend told its coordinator last at #4, before that, and took the engines for "
        "running since",
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
    assert lines[1] == "engine 1 answered #6: 'still in flight'"


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
    assert lines[-1].endswith(": it came (#6) and was aborted (#8) before a step")


def test_handling_of_other_notices_is_passed_over():
    earlier = WaveNoticeHandled("start", 0, 0, 0, False, 0, True, True)
    other = WaveNoticeHandled("start", 1, 0, 0, True, 0, True, False)
    late = WaveNoticeHandled("start", 0, 0, 0, True, 0, True, False)
    short, _ = why(RUNS, earlier, start(0, 0), other, late)
    assert short.endswith("and the coordinator, at wave 0 and running, sent nothing for it (#8)")


def test_pause_is_found_behind_later_calls():
    told = moved(0, running=True, pause="all", pending_pause=True)
    called = (utility("p", "pause"), seen(0, 1, "pause_scheduler"), seen(0, 9, "is_sleeping"))
    assert why(*called, told)[0] == "pause_scheduler never reached engine 1"


def test_pause_that_no_call_explains_is_looked_for_as_a_wake_up():
    told = moved(0, running=True, pause="all", pending_pause=True)
    assert why(told)[1] == ["engine 0 began to run at #4, and sent no start_wave"]


def test_many_different_states_are_cut():
    ranks = tuple(range(12))
    states = tuple(f"engine {rank}: at wave {rank}" for rank in ranks)
    last = RanksStuck(0, "device", ((0, "forward"),), ranks[1:], states, for_good=False)
    found = verdict(NoRankWaitsAlone, *born(*ranks), *HEALED, last, *END, ranks=ranks)
    assert found.seen.splitlines()[8] == "… and 4 more states"


# --- what is told of a run that shows less -------------------------------------------------------


def test_peer_that_stood_still_and_went_on_is_blamed_again():
    found = hangs(EngineStalled(1, "g"), EngineResumed(1), RUNS)
    assert violated(found, 6, 10)
    assert found.message.startswith("engine 0 waits in device forward for engine 1: ")


def test_rank_is_told_where_it_waits_itself_whoever_else_waits_elsewhere():
    others = ((2, "host", "barrier"), (1, "host", "resume"))
    crossed = stuck((0, "forward"), for_good=True, elsewhere=others)
    found = verdict(NoRankWaitsAlone, *BEGIN, *born(2), crossed, ranks=(0, 1, 2))
    assert "engine 1 waits in host resume" in found.message
    assert "barrier" not in found.message


def test_rank_that_no_call_brought_to_where_it_waits_is_told_without_one():
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "resume"),))
    found = judge(RUNS, crossed)
    assert found.message.endswith("nothing brought engine 0 there")
    assert "engine 0 began to run at #4" in found.seen
    assert "came (#" not in found.seen


def test_rank_that_never_began_to_run_is_not_said_to_have():
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "sync"),))
    found = judge(RUNS, crossed)
    assert "engine 0 began to run at #4" in found.seen
    assert "engine 1 began" not in found.seen


def test_call_that_came_before_its_rank_told_its_state_is_told_without_one():
    crossed = stuck((0, "forward"), for_good=True, elsewhere=((1, "host", "resume"),))
    found = verdict(
        NoRankWaitsAlone, *JOINED, *born(0), seen(1, 2, RESUME), *born(1), RUNS, crossed
    )
    assert "engine 1 was in an unknown state when resume_scheduler came (#3)" in found.seen


def test_call_that_an_idle_rank_answered_at_once_is_not_called_a_repetition():
    last = stuck((0, "resume"), group="host")
    called = (utility("r", "resume"), seen(0, 1, RESUME), seen(1, 2, RESUME))
    answered = reply(1, 2, "None", None, RESUME)
    _, lines = why(*called, answered, last=last)
    assert lines[1] == "engine 1 answered #6 at once (#7)"
    # A rank that had not told its state yet has none to blame.
    early = (*JOINED, *born(0), *called, answered, *born(1))
    found = verdict(NoRankWaitsAlone, *early, *HEALED, last, *END)
    assert violated(found, 4, 5, 6, 11)
    assert "engine 1 answered #5 at once (#6)" in found.seen


def test_idle_rank_of_an_earlier_wave_is_told_without_a_beginning():
    _, lines = why(moved(1, wave=3))
    assert lines[0] == "engine 0 is in wave 0 (#2), and engine 1 in wave 3 (#4)"
    assert not any("began to run" in line for line in lines)


def test_change_of_size_that_made_the_rank_a_member_is_told_and_not_a_later_one():
    first = GroupSwitched(1, (0,), (0, 1), running=False, wave=3, step=0)
    later = GroupSwitched(2, (0, 1), (0, 1, 2), running=False, wave=4, step=0)
    running = moved(1, running=True, wave=1)
    last = stuck((1, "forward"), missing=(0,))
    found = hangs(moved(0, wave=3), first, later, *born(2), running, last=last)
    assert "engine 1 came into the group by a change of its size (#5)" in found.seen
    assert "all agreed on wave 3" in found.seen


def test_wake_up_that_left_the_rank_out_is_not_traced_to_another_one_that_it_asked_for():
    left_out = StartWaveIgnored(1, 0, 1, "it leaves this rank out")
    _, lines = why(RUNS, start(1, 0), start(1, 5), left_out)
    assert "engine 1 had asked for it itself (#5)" in lines
    _, lines = why(RUNS, start(1, 5), left_out)
    assert not any("had asked for it itself" in line for line in lines)


def test_request_that_is_neither_there_nor_aborted_is_told():
    left_out = StartWaveIgnored(1, 0, 1, "it leaves this rank out")
    _, lines = why(RUNS, add(1, "a"), left_out, release="0.32.0")
    assert lines[1].endswith("it is not there: the last ADD at engine 1 is #5")
