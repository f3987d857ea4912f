"""lockstep.paused-runs-nothing looks at what a paused rank sends, and whether it begins to run."""

from __future__ import annotations

import pytest

from harness.invariants.lockstep_paused_runs_nothing import PausedRunsNothing
from tests.support.lockstep import born, moved, verdict
from tests.support.traces import add, held, out, unexercised, violated

ALL = moved(0, pause="all", ignores_starts=True)
NEW = moved(0, pause="new", ignores_starts=True)
AGAIN = moved(0, running=True, pause="all", pending_pause=True)


def judge(*events, **parts):
    return verdict(PausedRunsNothing, *born(), *events, **parts)


def test_paused_rank_that_sends_nothing_until_it_is_resumed_holds():
    found = judge(add(0, "a"), ALL, moved(0), out(0, "a", 1), black=True)
    assert held(found)
    assert found.exercised == 1


def test_end_without_tokens_of_a_paused_rank_holds():
    assert held(judge(add(0, "a"), ALL, out(0, "a", finish="abort")))


def test_another_rank_that_runs_holds():
    assert held(judge(ALL, out(1, "a", 1)))


def test_tokens_of_a_paused_rank_are_violated():
    found = judge(add(0, "a"), out(0, "a", 1), ALL, out(0, "a", 2), black=True)
    assert violated(found, 4, 5)
    assert found.message == "engine 0 ran a while it was paused"


def test_request_that_drains_holds_and_one_that_begins_is_violated():
    begun = (add(0, "a"), out(0, "a", 1), add(0, "b"))
    assert held(judge(*begun, NEW, out(0, "a", 2)))
    assert violated(judge(*begun, NEW, out(0, "b", 1)), 5, 6)


def test_id_that_is_used_again_is_another_request():
    begun = (add(0, "a"), out(0, "a", 1), add(0, "a"))
    assert violated(judge(*begun, NEW, out(0, "a", 1)), 5, 6)


@pytest.mark.parametrize("tags", [("weights", "kv_cache"), ("kv_cache",)])
def test_tokens_of_a_rank_that_sleeps_are_violated(tags):
    found = judge(moved(0, asleep=tags), out(0, "a", 1))
    assert violated(found, 2, 3)
    assert tags[-1] in found.message


def test_half_awake_rank_may_run_until_0_23_and_not_since():
    half = (moved(0, asleep=("kv_cache",)), out(0, "a", 1))
    assert held(judge(*half, release="0.23.0"))
    assert violated(judge(*half, release="0.24.0"), 2, 3)
    skewed = {"topology": {"engine_release": "0.23.0"}}
    assert held(judge(*half, release="0.24.0", **skewed))


def test_rank_that_is_told_to_pause_anew_may_step():
    assert held(judge(ALL, AGAIN))


def test_paused_rank_that_begins_to_run_is_violated():
    found = judge(ALL, moved(0, running=True, pause="all", ignores_starts=True), black=True)
    assert violated(found, 2, 3)
    assert "stays idle" in found.expected


def test_resumed_rank_may_run():
    assert held(judge(ALL, moved(0), moved(0, running=True), out(0, "a", 1)))


def test_rank_that_is_never_paused_is_not_judged():
    assert unexercised(judge(add(0, "a"), out(0, "a", 1)))
