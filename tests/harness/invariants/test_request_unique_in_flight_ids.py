"""request.unique-in-flight-ids, on hand-written traces."""

from harness.invariants.request_unique_in_flight_ids import UniqueInFlightIds
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


USED = (call("a"), add(0, "a"), out(0, "a", 1, finish="stop"), done("a"))


def test_a_second_request_is_violated_although_the_id_was_used_before():
    both = (call("b", external="a"), add(0, "a"), call("c", external="a"), add(1, "a"))
    assert violated(judge(CLS, *USED, *both, *END, black=True), 5, 7)


def test_a_second_request_is_violated_although_the_id_was_aborted_before():
    aborted = (call("a"), add(0, "a"), leave("a"), cancelled("a"), abort(0, "a"))
    both = (call("b", external="a"), add(0, "a"), call("c", external="a"), add(1, "a"))
    assert violated(judge(CLS, *aborted, *both, *END, black=True), 6, 8)


def test_a_second_request_is_violated_while_the_abort_of_an_older_one_is_under_way():
    older = (call("a"), add(0, "a"), leave("a"), cancelled("a"))
    both = (call("b", external="a"), add(1, "a"), call("c", external="a"), add(0, "a"))
    assert violated(judge(CLS, *older, *both, *END, black=True), 5, 7)


def test_a_call_that_was_refused_as_a_duplicate_does_not_hide_a_second_request():
    refused = (call("x", external="a"), failed("x", "DuplicateRequestId"))
    trace = (call("a"), add(0, "a"), *refused, call("c", external="a"), add(1, "a"))
    assert violated(judge(CLS, *trace, *END, black=True), 1, 5)


def test_an_id_may_be_used_a_third_time_when_the_second_caller_has_left():
    second = (call("b", external="a"), add(1, "a"), leave("b"), cancelled("b"))
    third = (call("c", external="a"), add(0, "a"))
    assert held(judge(CLS, *USED, *second, *third, *END, black=True))


def test_calls_that_all_began_before_the_first_request_may_each_have_any_of_them():
    begun = (call("a"), call("b", external="a"), call("c", external="a"))
    sent = (add(0, "a"), out(0, "a", 1, finish="stop"), add(1, "a"))
    assert violated(judge(CLS, *begun, *sent, add(0, "a"), *END, black=True), 5, 6)
    # Whose end it was is not known: the id may have been free for its client.
    assert held(judge(CLS, *begun, *sent, done("a"), add(0, "a"), *END, black=True))
