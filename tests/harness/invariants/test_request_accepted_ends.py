"""request.accepted-ends, on hand-written traces."""

from client.events import HealthFailed
from harness.invariants.request_accepted_ends import AcceptedEnds
from harness.trace.events import ConnectEnded, RunEnded
from mock_engines.events import EngineDied
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
    out,
    unexercised,
    violated,
)

CLS = AcceptedEnds
BEGUN = (call("a"), add(0, "a"))


def test_a_call_that_ended_holds():
    assert held(judge(CLS, *BEGUN, out(0, "a", finish="stop"), done("a"), *END, black=True))


def test_a_call_whose_finish_was_lost_is_violated_black_box():
    verdict = judge(CLS, *BEGUN, out(0, "a", finish="stop"), *END, cancelled("a"), black=True)
    assert violated(verdict, 0, 1, 2, 5)


def test_a_call_that_was_aborted_and_never_ended_is_violated():
    assert violated(judge(CLS, *BEGUN, abort(0, "a"), *END), 0, 1, 2, 5)


def test_a_call_that_never_reached_an_engine_is_violated():
    assert violated(judge(CLS, call("a"), *END), 0, 3)


def test_a_call_behind_a_fatal_error_is_violated():
    assert violated(judge(CLS, *BEGUN, HealthFailed("Decode", "", True), *END), 0, 2, 5)


def test_a_call_that_its_engine_still_has_is_not_judged():
    assert unexercised(judge(CLS, *BEGUN, *END))


def test_silent_deaths_calls_left_open_and_failed_startups_are_left_out():
    assert unexercised(judge(CLS, *BEGUN, EngineDied(0, "vanish"), *END))
    assert unexercised(judge(CLS, call("a"), EngineDied(0, "close"), *END))
    finish = out(0, "a", finish="stop")
    assert unexercised(judge(CLS, *BEGUN, finish, *END, open_at_end=["a"]))
    assert unexercised(judge(CLS, ConnectEnded("HandshakeTimeout", ""), call("a"), *END))


def test_a_run_that_was_not_healed_is_not_judged():
    verdict = judge(CLS, *BEGUN, out(0, "a", finish="stop"), RunEnded(("a",)))
    assert verdict.reason == "the run was not healed"


def test_a_call_at_an_engine_that_said_its_last_word_is_violated():
    died = EngineDied(0, "sentinel")
    assert violated(judge(CLS, *BEGUN, died, *END), 0, 1, 2, 5)
    assert held(judge(CLS, *BEGUN, died, failed("a"), *END))
    assert unexercised(judge(CLS, *BEGUN, EngineDied(1, "sentinel"), *END))


def test_calls_that_share_an_id_are_not_judged_while_an_engine_has_one_of_them():
    both = (call("a"), call("b", external="a"))
    assert unexercised(judge(CLS, *both, add(0, "a"), *END))
    sent = (add(0, "a"), add(1, "a"), out(1, "a", finish="stop"))
    assert unexercised(judge(CLS, *both, *sent, *END))
    verdict = judge(CLS, *both, add(0, "a"), out(0, "a", finish="stop"), *END)
    assert violated(verdict, 0, 2, 3, 6)
