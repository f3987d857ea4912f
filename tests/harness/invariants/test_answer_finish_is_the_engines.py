"""answer.finish-is-the-engines, on hand-written traces."""

import pytest

from harness.invariants.answer_finish_is_the_engines import FinishIsTheEngines
from harness.trace.events import AbortRequested, CallEnded, CancelRequested
from mock_engines.events import FinishedOnlySent
from tests.support.traces import END, add, call, held, judge, out, unexercised, violated

CLS = FinishIsTheEngines


def ended(finish: str | None, op: str = "a") -> CallEnded:
    return CallEnded(op, "finished", finish, None, "")


def trace(sent: str | None, shown: str | None, **fields):
    final = () if sent is None else (out(0, "a", 1, finish=sent),)
    return (call("a", **fields), add(0, "a"), *final, ended(shown), *END)


@pytest.mark.parametrize("finish", ["stop", "length", "abort", "error", "repetition"])
def test_reason_that_the_engine_gave_holds(finish):
    assert held(judge(CLS, *trace(finish, finish), black=True))


@pytest.mark.parametrize("sent", ["error", "abort", "repetition"])
@pytest.mark.parametrize("shown", ["stop", "length"])
def test_failure_that_looks_like_success_is_violated(sent, shown):
    assert violated(judge(CLS, *trace(sent, shown), black=True), 1, 2, 3)


@pytest.mark.parametrize(("sent", "shown"), [("stop", "length"), ("length", "stop")])
def test_another_reason_of_success_is_violated(sent, shown):
    assert violated(judge(CLS, *trace(sent, shown)), 1, 2, 3)


@pytest.mark.parametrize("shown", ["abort", "error", None])
def test_success_that_looks_like_failure_is_violated(shown):
    assert violated(judge(CLS, *trace("stop", shown)), 1, 2, 3)


@pytest.mark.parametrize("sent", ["error", "repetition"])
def test_reason_that_a_surface_cannot_express_may_be_shown_as_abort(sent):
    assert held(judge(CLS, *trace(sent, "abort"), black=True))


def test_success_without_any_final_output_is_violated():
    assert violated(judge(CLS, *trace(None, "stop")), 1, 2)
    lists = (call("a"), add(0, "a"), FinishedOnlySent(0, ("a",)), ended("length"), *END)
    assert violated(judge(CLS, *lists), 1, 3)


def test_only_the_first_final_of_an_engine_counts():
    finals = (out(0, "a", 1, finish="error"), out(0, "a", 1, finish="stop"))
    assert violated(judge(CLS, call("a"), add(0, "a"), *finals, ended("stop"), *END), 1, 2, 4)


def test_several_engines_may_race_to_be_first():
    finals = (out(0, "a", 1, finish="error"), out(1, "a", 1, finish="stop"))
    assert held(judge(CLS, call("a"), add(0, "a"), *finals, ended("stop"), *END))


def test_frontend_may_end_a_call_at_its_own_stop_string():
    steps = [{"call": {"id": "a", "stop": ["x"]}}]
    assert unexercised(judge(CLS, *trace("abort", "stop"), steps=steps))
    steps = [{"call": {"id": "a", "body": {"stop": "x"}}}]
    assert unexercised(judge(CLS, *trace("abort", "stop"), steps=steps))


@pytest.mark.parametrize("event", [CancelRequested("a", "drop"), AbortRequested(("a",))])
def test_call_that_its_caller_gave_up_is_not_judged(event):
    story = (call("a"), add(0, "a"), event, out(0, "a", 1, finish="stop"), ended("abort"), *END)
    assert unexercised(judge(CLS, *story))


def test_calls_that_share_an_id_are_not_judged():
    story = (
        *(call("a", external="x"), call("b", external="x"), add(0, "x")),
        *(out(0, "x", 1, finish="error"), ended("stop"), *END),
    )
    assert unexercised(judge(CLS, *story))


@pytest.mark.parametrize("shown", ["abort", "error", None])
def test_failure_of_a_call_that_its_engine_never_ended_is_not_judged(shown):
    assert unexercised(judge(CLS, *trace(None, shown)))
