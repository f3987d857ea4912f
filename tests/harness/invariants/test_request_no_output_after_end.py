"""request.no-output-after-end, on hand-written traces."""

from harness.invariants.request_no_output_after_end import NoOutputAfterEnd
from tests.support.traces import (
    END,
    call,
    cancelled,
    done,
    held,
    judge,
    piece,
    unexercised,
    violated,
)

CLS = NoOutputAfterEnd


def test_outputs_before_the_end_hold():
    trace = (call("a"), piece("a", 1), piece("a", 2, finish="length"), done("a"), *END)
    assert held(judge(CLS, *trace, black=True))


def test_an_output_after_the_finish_is_violated_black_box():
    trace = (call("a"), piece("a", 1, finish="length"), piece("a", 2), *END)
    assert violated(judge(CLS, *trace, black=True), 1, 2)


def test_an_output_after_the_call_ended_is_violated():
    assert violated(judge(CLS, call("a"), cancelled("a"), piece("a", 1), *END), 1, 2)


def test_a_call_that_ends_twice_is_violated():
    assert violated(judge(CLS, call("a"), done("a"), done("a"), *END), 1, 2)


def test_a_call_without_end_is_not_judged():
    assert unexercised(judge(CLS, call("a"), piece("a", 1), *END))
