"""answer.failure-has-a-cause, on hand-written traces."""

import pytest

from harness.invariants.answer_failure_has_a_cause import FailureHasACause
from harness.trace.events import CancelRequested, Fenced, HealthSample, ProcessExited, StepBegan
from mock_engines.events import EngineDied, FinishedOnlySent
from tests.support.traces import (
    END,
    add,
    call,
    done,
    failed,
    held,
    judge,
    out,
    unexercised,
    violated,
)

CLS = FailureHasACause


def trace(*between, finish="length", end=None):
    final = out(0, "a", 1, finish=finish)
    return (call("a"), add(0, "a"), final, *between, end or failed("a"), *END)


def test_call_that_was_answered_and_finished_holds():
    assert held(judge(CLS, *trace(end=done("a")), black=True))


@pytest.mark.parametrize("finish", ["stop", "length", "repetition"])
def test_call_that_was_answered_and_failed_is_violated(finish):
    assert violated(judge(CLS, *trace(finish=finish), black=True), 1, 2, 3)


@pytest.mark.parametrize("finish", ["error", "abort"])
def test_engine_that_gave_up_is_a_cause(finish):
    assert unexercised(judge(CLS, *trace(finish=finish)))


@pytest.mark.parametrize(
    "event",
    [
        HealthSample(False, "Decode", ""),
        EngineDied(1, "sentinel"),
        ProcessExited(1),
        StepBegan(3, "shutdown"),
        CancelRequested("a", "cancel"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_frontend_that_is_not_sound_and_caller_that_left_are_causes(event):
    assert unexercised(judge(CLS, *trace(event), black=True))


def test_end_without_an_answer_is_a_cause():
    story = (call("a"), add(0, "a"), FinishedOnlySent(0, ("a",)), failed("a"), *END)
    assert unexercised(judge(CLS, *story))


def test_parameters_of_ones_own_are_a_cause():
    steps = [{"call": {"id": "a", "body": {"logprobs": 21}}}]
    assert unexercised(judge(CLS, *trace(), steps=steps))


def test_token_that_no_vocabulary_has_is_a_cause():
    story = (call("a"), add(0, "a"), out(0, "a", 257, finish="stop"), failed("a"), *END)
    assert unexercised(judge(CLS, *story))
    story = (call("a"), add(0, "a"), out(0, "a", 256, finish="stop"), failed("a"), *END)
    assert violated(judge(CLS, *story), 1, 2, 3)


def test_failure_before_the_answer_is_no_matter_of_it():
    story = (call("a"), add(0, "a"), failed("a"), out(0, "a", 1, finish="stop"), *END)
    assert unexercised(judge(CLS, *story))


def test_calls_that_share_an_id_are_not_judged():
    story = (call("a", external="x"), call("b", external="x"), add(0, "x"))
    final = out(0, "x", 1, finish="stop")
    assert unexercised(judge(CLS, *story, final, failed("a"), *END))


@pytest.mark.parametrize("end", [FinishedOnlySent(0, ("a",)), out(0, "a", finish="stop")])
def test_end_of_the_id_that_an_engine_sent_before_its_add_is_a_cause(end):
    answered = (out(0, "a", 1, finish="length"), failed("a"), *END)
    assert unexercised(judge(CLS, end, call("a"), add(0, "a"), *answered, black=True))
    assert unexercised(judge(CLS, call("a"), end, add(0, "a"), *answered))
    # Behind a fence it has arrived before the call began, and is no business of it.
    assert violated(judge(CLS, end, Fenced("step"), call("a"), add(0, "a"), *answered), 3, 4, 5)
    # Nor is one of another id.
    assert violated(judge(CLS, FinishedOnlySent(0, ("b",)), *trace()), 2, 3, 4)
