"""request.every-add-ends, on hand-written traces."""

import pytest

from client.events import AbortFailed, HealthFailed
from harness.invariants.request_every_add_ends import EveryAddEnds
from harness.trace.events import Fenced, Healed, RunEnded, StepBegan
from mock_engines.events import EngineDied, FinishedOnlySent
from tests.support.traces import (
    END,
    abort,
    add,
    call,
    cancelled,
    done,
    failed,
    held,
    judge,
    leave,
    out,
    unexercised,
    violated,
)

CLS = EveryAddEnds
BEGUN = (call("a"), add(0, "a"))
LEFT = (leave("a"), cancelled("a"))


def test_a_request_that_the_engine_finishes_holds():
    assert held(judge(CLS, *BEGUN, out(0, "a", 1, finish="length"), done("a"), *END))
    assert held(judge(CLS, *BEGUN, FinishedOnlySent(0, ("a",)), failed("a"), *END))


def test_a_request_that_is_aborted_after_its_caller_left_holds():
    assert held(judge(CLS, *BEGUN, *LEFT, abort(0, "a"), *END, black=True))


def test_a_request_whose_caller_left_without_abort_is_violated_black_box():
    verdict = judge(CLS, *BEGUN, *LEFT, *END, black=True)
    assert violated(verdict, 1, 2, 5)
    assert verdict.seen == "neither by the final fence"


def test_a_request_whose_call_failed_without_abort_is_violated():
    assert violated(judge(CLS, *BEGUN, failed("a"), *END), 1, 2, 4)


def test_a_request_with_a_suffixed_id_belongs_to_its_call():
    trace = (call("a", external="cmpl-a"), add(0, "cmpl-a-0123abcd", external="cmpl-a"))
    assert violated(judge(CLS, *trace, *LEFT, *END, black=True), 1, 2, 5)


def test_an_abort_behind_a_received_finish_is_violated():
    trace = (*BEGUN, out(0, "a", 1, finish="length"), done("a"), abort(0, "a"), *END)
    assert violated(judge(CLS, *trace), 1, 2, 4)


def test_an_abort_that_crosses_the_finish_of_a_caller_that_left_holds():
    trace = (*BEGUN, out(0, "a", 1, finish="length"), *LEFT, abort(0, "a"), *END)
    assert held(judge(CLS, *trace))


def test_a_dead_engine_or_a_failed_or_closed_frontend_needs_no_abort():
    assert held(judge(CLS, *BEGUN, EngineDied(0, "vanish"), *LEFT, *END))
    assert unexercised(judge(CLS, *BEGUN, HealthFailed("Decode", "", True), failed("a"), *END))
    assert unexercised(judge(CLS, *BEGUN, StepBegan(0, "shutdown"), failed("a"), *END))


def test_an_abort_that_could_not_be_sent_is_no_violation():
    lost = AbortFailed(0, ("a",), "engine 0 is gone")
    assert unexercised(judge(CLS, *BEGUN, *LEFT, lost, *END))


def test_what_stopping_the_frontend_cancels_is_not_judged():
    assert unexercised(judge(CLS, *BEGUN, *END, cancelled("a")))


def test_without_a_final_fence_an_abort_may_be_under_way():
    verdict = judge(CLS, *BEGUN, *LEFT, Healed(), RunEnded(()))
    assert verdict.verdict == "not_judged"
    assert "no final fence" in verdict.reason


def test_no_request_is_not_judged():
    assert unexercised(judge(CLS, *END))


@pytest.mark.parametrize("end", [FinishedOnlySent(1, ("a",)), out(1, "a", finish="stop")])
def test_an_end_of_the_id_by_another_engine_may_be_taken_for_its_own(end):
    other = (add(1, "a"),)  # which has a request of this id too, so that the end is its own
    assert held(judge(CLS, *BEGUN, *other, end, *LEFT, *END))
    # Until the client comes to abort it, which it has by the next fence.
    assert held(judge(CLS, *BEGUN, *other, *LEFT, end, *END))
    assert violated(judge(CLS, *BEGUN, *other, *LEFT, Fenced("step"), end, *END), 1, 3, 8)
    # One that has arrived before the call began is none of it.
    assert violated(judge(CLS, *other, end, Fenced("step"), *BEGUN, *LEFT, *END), 4, 5, 8)
