"""lockstep.pause-returns-at-rest looks at what was agreed when a pause is answered."""

from __future__ import annotations

import pytest

from harness.invariants.lockstep_pause_returns_at_rest import PauseReturnsAtRest
from tests.support.lockstep import JOINED, applied, born, exchange, moved, verdict
from tests.support.traces import held, reply, seen, unexercised, violated

METHOD = "pause_scheduler"
CALLED = (*JOINED, *born(), seen(0, 7, METHOD), seen(1, 8, METHOD))
"""Six events; the calls are 4 and 5."""
TOLD = moved(0, running=True, pause="all", pending_pause=True)
AGREED = exchange(pausing=(0, 1), goes_on=False)
RESTS = moved(0, wave=1, pause="all", ignores_starts=True)


def answered(method=METHOD, failure=None):
    return (applied(0, 7, method), reply(0, 7, "None", failure, method))


def judge(*events, **parts):
    return verdict(PauseReturnsAtRest, *events, **parts)


def test_answer_behind_an_exchange_in_which_all_pause_holds():
    assert held(judge(*CALLED, TOLD, AGREED, RESTS, *answered(), black=True))


def test_answer_after_what_ran_has_drained_holds():
    draining = exchange(pausing=(0, 1), unfinished=(0,))
    drained = exchange((0, 0, 16), (1, 0, 16))
    assert held(judge(*CALLED, TOLD, draining, drained, RESTS, *answered()))


def test_answer_before_all_agree_is_violated():
    found = judge(*CALLED, TOLD, *answered(), black=True)
    assert violated(found, 4, 6, 8)
    assert "not all ranks have agreed" in found.seen


def test_answer_while_work_goes_on_is_violated():
    draining = exchange(pausing=(0, 1), unfinished=(0,))
    found = judge(*CALLED, TOLD, draining, RESTS, *answered())
    assert violated(found, 4, 7, 8, 10)
    assert found.seen == "the last exchange said that all go on (event 7)"


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (moved(0, running=True, pause="all", ignores_starts=True), "it is running at wave 0"),
        (moved(0, pause="none", ignores_starts=True), "a wake-up would make it run"),
        (moved(0, pause="all"), "a wake-up would make it run"),
    ],
)
def test_answer_of_a_rank_that_can_step_is_violated(state, says):
    found = judge(*CALLED, AGREED, state, *answered())
    assert violated(found, 4, 6, 7, 9)
    assert found.seen == says


def test_agreement_on_an_earlier_pause_does_not_count():
    earlier = (*JOINED, *born(), AGREED, RESTS, seen(0, 7, METHOD))
    assert violated(judge(*earlier, *answered()), 4, 5, 6, 8)


def test_answer_of_a_rule_is_not_judged():
    assert unexercised(judge(*CALLED, TOLD, reply(0, 7, "None", None, METHOD)))


def test_failure_is_not_judged():
    assert unexercised(judge(*CALLED, TOLD, *answered(failure="no")))


def test_rank_that_joined_again_ends_the_judgement():
    assert unexercised(judge(*CALLED, JOINED[0], TOLD, *answered()))


@pytest.mark.parametrize("release", ["0.32.0", "0.33.0"])
def test_pause_generation_is_a_pause_since_0_33(release):
    method = "pause_generation"
    calls = (*JOINED, *born(), seen(0, 7, method))
    found = judge(*calls, TOLD, *answered(method), release=release)
    if release == "0.33.0":
        assert violated(found, 4, 5, 7)
    else:
        assert unexercised(found)
