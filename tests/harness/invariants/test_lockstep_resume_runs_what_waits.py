"""lockstep.resume-runs-what-waits looks for requests that a resume forgot."""

from __future__ import annotations

from harness.invariants.lockstep_resume_runs_what_waits import ResumeRunsWhatWaits
from harness.trace.events import Healed, RunEnded
from mock_engines.events import EngineDied
from tests.support.lockstep import born, moved, verdict
from tests.support.traces import add, call, held, out, unexercised, violated

PAUSED = moved(0, pause="all", ignores_starts=True)
RESUMED = moved(0)
END = (Healed(), RunEnded(()))


def judge(*events, end=END, **parts):
    return verdict(ResumeRunsWhatWaits, *born(), *events, *end, **parts)


def test_request_that_waited_and_ends_holds():
    found = judge(PAUSED, add(0, "a"), RESUMED, out(0, "a", 1, finish="length"), black=True)
    assert held(found)
    assert found.exercised == 1


def test_request_that_waited_and_never_ends_is_violated():
    found = judge(PAUSED, add(0, "a"), RESUMED, black=True)
    assert violated(found, 3, 4, 6)
    assert found.seen == "a still there (1 such requests)"


def test_frozen_request_counts_too():
    assert violated(judge(add(0, "a"), out(0, "a", 1), PAUSED, RESUMED), 2, 5, 7)


def test_request_of_another_rank_or_of_later_is_not_judged():
    assert unexercised(judge(add(1, "b"), PAUSED, RESUMED, add(0, "a")))


def test_rank_that_is_told_to_pause_again_is_not_judged():
    waits = (PAUSED, add(0, "a"), RESUMED)
    assert held(judge(*waits, PAUSED))


def test_request_that_the_scenario_leaves_open_is_not_judged():
    steps = [{"call": {"id": "a"}}]
    waits = (call("a"), PAUSED, add(0, "a"), RESUMED)
    assert held(judge(*waits, steps=steps, open_at_end=["a"]))


def test_ranks_of_which_one_died_are_not_judged():
    assert held(judge(PAUSED, add(0, "a"), RESUMED, EngineDied(1, "close")))


def test_run_that_was_not_healed_is_not_judged():
    found = judge(PAUSED, add(0, "a"), RESUMED, end=(RunEnded(()),))
    assert (found.verdict, found.reason) == ("not_judged", "the run was not healed")


def test_run_without_a_resume_is_not_judged():
    assert unexercised(judge(add(0, "a"), PAUSED))
