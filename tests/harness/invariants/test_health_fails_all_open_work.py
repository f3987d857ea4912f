"""health.fails-all-open-work, on hand-written traces."""

from client.events import HealthFailed, UtilityRegistered
from harness.invariants.health_fails_all_open_work import FailsAllOpenWork
from harness.trace.events import HealthSample
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
    result,
    seen,
    unexercised,
    utility,
    utility_failed,
    violated,
)

CLS = FailsAllOpenWork
DEAD = HealthFailed("EngineCoreDead", "dead", True)
SICK = HealthSample(False, None, "")


def test_open_work_that_fails_with_the_cause_holds():
    begun = (call("a"), add(0, "a"), utility("u"))
    ended = (failed("a", "EngineCoreDead"), utility_failed("u", "EngineCoreDead"))
    assert held(judge(CLS, *begun, DEAD, *ended, *END))


def test_a_call_that_stays_open_is_violated():
    verdict = judge(CLS, call("a"), DEAD, *END)
    assert violated(verdict, 1, 4)
    assert verdict.seen == "a is open"


def test_a_utility_call_that_stays_open_is_violated_black_box():
    assert violated(judge(CLS, utility("u"), SICK, *END, black=True), 1, 4)


def test_another_cause_is_violated():
    verdict = judge(CLS, call("a"), DEAD, failed("a", "DispatcherClosed"), *END)
    assert violated(verdict, 1, 2)
    assert verdict.expected == "call a failed with EngineCoreDead"


def test_a_call_that_ends_for_its_own_reason_holds():
    assert held(judge(CLS, call("a"), DEAD, failed("a", "RequestStreamClosed"), *END))
    assert held(judge(CLS, call("a"), DEAD, done("a"), *END))
    assert unexercised(judge(CLS, call("a"), DEAD, cancelled("a"), *END))


def test_work_that_succeeds_afterwards_is_violated_black_box():
    assert violated(judge(CLS, SICK, call("a"), done("a"), *END, black=True), 0, 2)
    assert violated(judge(CLS, SICK, utility("u"), result("u"), *END, black=True), 0, 2)


def test_messages_sent_afterwards_are_violated():
    assert violated(judge(CLS, SICK, call("a"), add(0, "a"), black=True), 0, 2)
    assert violated(judge(CLS, SICK, utility("u"), seen(0, 1), black=True), 0, 2)
    registered = UtilityRegistered(1, 0, "is_sleeping")
    assert violated(judge(CLS, DEAD, utility("u"), registered, seen(0, 1)), 0, 3)
    begun = (call("a"), add(0, "a"))
    assert violated(judge(CLS, *begun, DEAD, leave("a"), abort(0, "a")), 2, 4)


def test_messages_that_were_under_way_are_legal():
    trace = (call("a"), DEAD, add(0, "a"), failed("a", "EngineCoreDead"), *END)
    assert held(judge(CLS, *trace))


def test_a_healthy_frontend_is_not_judged():
    assert unexercised(judge(CLS, call("a"), done("a"), *END))


def test_messages_for_work_that_nobody_began_after_the_failure_are_legal():
    open_call = (call("a"), add(0, "a"))
    ended = (failed("a", "EngineCoreDead"), *END)
    # A utility call of nobody, or one whose ids may be those of another call.
    assert held(judge(CLS, *open_call, DEAD, seen(0, 9, "stranger"), *ended))
    alike = (utility("u"), utility("v"), seen(0, 1), seen(1, 2))
    over = (utility_failed("u", "EngineCoreDead"), utility_failed("v", "EngineCoreDead"))
    assert held(judge(CLS, *open_call, DEAD, *alike, *over, *ended))
    # An abort of nobody's request, or of one whose caller had left before the failure.
    assert held(judge(CLS, *open_call, DEAD, abort(0, "stranger"), *ended))
    assert held(
        judge(
            CLS,
            *open_call,
            call("b"),
            leave("b"),
            DEAD,
            abort(0, "b"),
            failed("b", "EngineCoreDead"),
            *ended,
        )
    )
    # Of callers who share an id it may be the abort of the one who had left before.
    shared = (*open_call, call("b", external="a"), leave("b"), DEAD, leave("a"), abort(0, "a"))
    over = (cancelled("a"), failed("b", "EngineCoreDead"))
    assert held(judge(CLS, *shared, *over, *END))


def test_an_end_of_no_utility_call_and_a_second_end_are_not_judged():
    assert unexercised(judge(CLS, DEAD, utility_failed("stranger"), *END))
    begun = (utility("u"), DEAD, utility_failed("u", "EngineCoreDead"))
    verdict = judge(CLS, *begun, result("u"), *END)
    assert held(verdict)
    assert verdict.exercised == 1
