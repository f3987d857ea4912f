"""request.add-once, on hand-written traces."""

from harness.invariants.request_add_once import AddOnce
from tests.support.traces import END, add, call, failed, held, judge, unexercised, violated

CLS = AddOnce


def test_one_add_for_each_call_holds():
    trace = (call("a"), call("b", external="a"), add(0, "a-00000001", external="a"))
    assert held(judge(CLS, *trace, add(1, "a-00000002", external="a"), *END, black=True))


def test_an_add_at_two_engines_is_violated_black_box():
    verdict = judge(CLS, call("a"), add(0, "a"), add(1, "a"), *END, black=True)
    assert violated(verdict, 1, 2)


def test_an_add_of_a_refused_call_is_violated():
    refused = failed("b", "DuplicateRequestId")
    trace = (call("a"), call("b", external="a"), add(0, "a"), add(0, "a"), refused, *END)
    assert violated(judge(CLS, *trace), 2, 3, 4)
    trace = (call("a"), add(0, "a"), call("b", external="a"), refused, *END)
    assert held(judge(CLS, *trace))


def test_no_add_is_not_judged():
    assert unexercised(judge(CLS, call("a"), failed("a"), add(0, "stranger"), *END))


def test_refusal_of_a_call_that_nobody_began_is_not_judged():
    assert unexercised(judge(CLS, failed("stranger", "DuplicateRequestId"), *END))
