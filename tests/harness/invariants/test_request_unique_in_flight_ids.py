"""request.unique-in-flight-ids, on hand-written traces."""

from harness.invariants.request_unique_in_flight_ids import UniqueInFlightIds
from tests.support.traces import (
    END,
    add,
    call,
    cancelled,
    held,
    judge,
    leave,
    out,
    unexercised,
    violated,
)

CLS = UniqueInFlightIds


def test_ids_that_differ_hold():
    assert held(judge(CLS, call("a"), call("b"), add(0, "a"), add(0, "b"), *END, black=True))


def test_a_second_request_of_one_id_is_violated_black_box():
    trace = (call("a"), add(0, "a"), call("b", external="a"), add(1, "a"), *END)
    assert violated(judge(CLS, *trace, black=True), 1, 3)


def test_an_id_may_be_used_again_after_its_end():
    again = (call("b", external="a"), add(1, "a"))
    finished = (call("a"), add(0, "a"), out(0, "a", 1, finish="stop"))
    assert held(judge(CLS, *finished, *again, *END))


def test_an_id_may_be_used_again_while_its_abort_is_under_way():
    left = (call("a"), add(0, "a"), leave("a"), cancelled("a"))
    assert held(judge(CLS, *left, call("b", external="a"), add(1, "a"), *END))


def test_no_request_is_not_judged():
    assert unexercised(judge(CLS, *END))
