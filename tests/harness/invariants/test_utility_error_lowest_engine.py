"""utility.error-lowest-engine, on hand-written traces."""

from client.events import UtilityRegistered, UtilitySettled
from harness.invariants.utility_error_lowest_engine import ErrorLowestEngine
from tests.support.traces import (
    END,
    held,
    judge,
    reply,
    seen,
    unexercised,
    utility,
    utility_failed,
    violated,
)

CLS = ErrorLowestEngine
BOTH_FAIL = (
    utility("u"),
    seen(0, 1),
    seen(1, 2),
    reply(1, 2, failure="one"),
    reply(0, 1, failure="zero"),
)


def test_the_error_of_the_lowest_engine_holds_black_box():
    trace = (*BOTH_FAIL, utility_failed("u", message="failed (call_id=1): zero"), *END)
    assert held(judge(CLS, *trace, black=True))


def test_the_error_of_the_faster_engine_is_violated_black_box():
    trace = (*BOTH_FAIL, utility_failed("u", message="failed (call_id=2): one"), *END)
    verdict = judge(CLS, *trace, black=True)
    assert violated(verdict, 3, 4, 5)
    assert verdict.expected == "error of engine 0: 'zero'"
    assert verdict.seen == "error: 'one'"


def test_the_error_class_of_another_engine_is_violated():
    trace = (
        utility("u"),
        UtilityRegistered(1, 0, "is_sleeping"),
        UtilityRegistered(2, 1, "is_sleeping"),
        UtilitySettled(2, 1, "is_sleeping", "UtilityCallFailed"),
        UtilitySettled(1, 0, "is_sleeping", "UtilityResultDecode"),
        utility_failed("u", "UtilityCallFailed"),
    )
    assert violated(judge(CLS, *trace, *END), 3, 4, 5)


def test_order_is_the_order_of_identity_bytes():
    ranks = (1, 256)  # 256 is 00 01 and comes before 01 00
    trace = (
        utility("u"),
        seen(256, 1),
        seen(1, 2),
        reply(1, 2, failure="one"),
        reply(256, 1, failure="far"),
    )
    first = utility_failed("u", message="far")
    assert held(judge(CLS, *trace, first, *END, ranks=ranks, black=True))
    bootstrapped = {"transport": "bootstrapped"}
    verdict = judge(CLS, *trace, first, *END, ranks=ranks, black=True, topology=bootstrapped)
    assert violated(verdict, 3, 4, 5)


def test_an_error_of_another_kind_in_a_lower_engine_is_not_a_violation_black_box():
    trace = (
        utility("u"),
        seen(0, 1),
        seen(1, 2),
        reply(0, 1, "None"),
        reply(1, 2, failure="one"),
        utility_failed("u", "UtilityResultDecode", "invalid result (call_id=1)"),
    )
    assert unexercised(judge(CLS, *trace, *END, black=True))


def test_one_failing_engine_is_not_judged():
    trace = (utility("u"), seen(0, 1), seen(1, 2), reply(0, 1, failure="no"), reply(1, 2))
    assert unexercised(judge(CLS, *trace, utility_failed("u", message="no"), *END))


def test_an_error_whose_text_is_of_no_engine_is_not_a_violation():
    trace = (*BOTH_FAIL, utility_failed("u", message="several engines failed"), *END)
    assert held(judge(CLS, *trace, black=True))
