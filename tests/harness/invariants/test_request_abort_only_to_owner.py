"""request.abort-only-to-owner, on hand-written traces."""

from client.events import RequestRegistered
from harness.invariants.request_abort_only_to_owner import AbortOnlyToOwner
from tests.support.traces import END, abort, add, call, held, judge, leave, unexercised, violated

CLS = AbortOnlyToOwner


def test_an_abort_at_the_owner_holds():
    trace = (call("a"), add(0, "a"), add(1, "b"), leave("a"), abort(0, "a"), abort(1, "b"), *END)
    assert held(judge(CLS, *trace, black=True))


def test_an_abort_at_another_engine_is_violated_black_box():
    verdict = judge(CLS, call("a"), add(0, "a"), abort(1, "a"), *END, black=True)
    assert violated(verdict, 1, 2)
    assert verdict.expected == "ABORT for a at engine 0 only"
    assert verdict.seen == "ABORT for a at engine 1"


def test_an_abort_that_reaches_another_engine_before_the_add_is_violated():
    assert violated(judge(CLS, call("a"), abort(1, "a"), add(0, "a"), *END), 1, 2)


def test_an_abort_ahead_of_its_add_is_violated():
    verdict = judge(CLS, call("a"), abort(0, "a"), add(0, "a"), *END)
    assert violated(verdict, 1, 2)
    assert verdict.expected == "ADD, then ABORT, for a at engine 0"


def test_a_second_abort_is_violated():
    trace = (call("a"), add(0, "a"), abort(0, "a"), abort(0, "a", "b"), *END)
    assert violated(judge(CLS, *trace), 1, 2, 3)
    assert violated(judge(CLS, call("a"), add(0, "a"), abort(0, "a", "a"), *END), 1, 2)


def test_aborts_without_any_add_are_violated_only_if_they_go_astray():
    registered = RequestRegistered("a", 0, None, 0)
    assert held(judge(CLS, registered, call("a"), abort(0, "a"), *END))
    assert violated(judge(CLS, registered, call("a"), abort(1, "a"), *END), 2)
    assert violated(judge(CLS, call("a"), abort(0, "a"), abort(1, "a"), *END), 1, 2)
    assert violated(judge(CLS, call("a"), abort(0, "a"), abort(0, "a"), *END), 1, 2)


def test_an_id_that_is_used_again_may_be_aborted_again():
    first = (call("a"), add(0, "a"), abort(0, "a"))
    again = (call("b", external="a"), add(1, "a"), abort(1, "a"))
    assert held(judge(CLS, *first, *again, *END))
    crossing = (call("a"), call("b", external="a"), abort(0, "a"), add(1, "a"))
    assert held(judge(CLS, *crossing, *END))


def test_two_requests_of_one_external_id_have_ids_of_their_own():
    trace = (
        call("a", external="cmpl-x"),
        call("b", external="cmpl-x"),
        add(0, "cmpl-x-00000001", external="cmpl-x"),
        add(1, "cmpl-x-00000002", external="cmpl-x"),
        abort(0, "cmpl-x-00000002"),
    )
    assert violated(judge(CLS, *trace, *END, black=True), 3, 4)


def test_no_abort_is_not_judged():
    assert unexercised(judge(CLS, call("a"), add(0, "a"), *END))
