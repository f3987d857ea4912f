"""request.outputs-own-only, on hand-written traces."""

from harness.invariants.request_outputs_own_only import OutputsOwnOnly
from harness.trace.events import CallOutput
from tests.support.traces import END, add, call, held, judge, out, piece, unexercised, violated

CLS = OutputsOwnOnly
BEGUN = (call("a"), call("b"), add(0, "a"), add(1, "b"))


def test_the_first_tokens_in_order_hold():
    trace = (*BEGUN, out(0, "a", 1, 2), out(1, "b", 7), out(0, "a", 3), piece("a", 1, 2), *END)
    assert held(judge(CLS, *trace, black=True))


def test_tokens_of_another_request_are_violated_black_box():
    trace = (*BEGUN, out(0, "a", 1), out(1, "b", 7), piece("a", 7), *END)
    verdict = judge(CLS, *trace, black=True)
    assert violated(verdict, 6)
    assert verdict.expected == "the first of [1]"
    assert verdict.seen == "[7]"


def test_tokens_out_of_order_or_with_a_gap_are_violated():
    trace = (*BEGUN, out(0, "a", 1), out(0, "a", 2), piece("a", 2), piece("a", 1), *END)
    assert violated(judge(CLS, *trace), 6, 7)
    assert violated(judge(CLS, *BEGUN, out(0, "a", 1, 2), piece("a", 2), *END), 5)


def test_tokens_for_a_call_that_reached_no_engine_are_violated():
    assert violated(judge(CLS, call("a"), out(0, "x", 1), piece("a", 1), *END), 2)


def test_tokens_may_come_through_another_engine():
    trace = (*BEGUN, out(0, "a", 1), out(1, "a", 2), piece("a", 2, 1), *END)
    assert held(judge(CLS, *trace))
    assert violated(judge(CLS, *trace[:-4], piece("a", 9), *END), 6)


def test_an_id_that_is_used_again_is_compared_anywhere():
    trace = (*BEGUN, out(0, "a", 1, 2), call("c", external="a"), add(0, "a"), out(0, "a", 3))
    assert held(judge(CLS, *trace, piece("c", 2, 3), *END))


def test_no_tokens_are_not_judged():
    assert unexercised(judge(CLS, *BEGUN, out(0, "a", 1), *END))


# --- surfaces that show text only -----------------------------------------------------------


def text(op: str, words: str) -> CallOutput:
    return CallOutput(op, (), None, words)


def test_text_of_the_own_tokens_holds():
    trace = (call("a"), add(0, "a"), out(0, "a", *b"hel"), text("a", "h"), text("a", "el"), *END)
    assert held(judge(CLS, *trace, black=True))


def test_text_of_another_request_is_violated():
    trace = (
        *(call("a"), call("b"), add(0, "a"), add(0, "b"), out(0, "a", *b"one")),
        *(out(0, "b", *b"two"), text("a", "tw"), *END),
    )
    assert violated(judge(CLS, *trace, black=True), 6)


def test_text_that_is_not_ascii_is_not_compared():
    trace = (call("a"), add(0, "a"), out(0, "a", 195, 164), text("a", "ä"), *END)
    assert unexercised(judge(CLS, *trace, black=True))
