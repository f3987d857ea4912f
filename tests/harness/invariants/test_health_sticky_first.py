"""health.sticky-first, on hand-written traces."""

from client.events import HealthFailed
from harness.invariants.health_sticky_first import HealthStickyFirst
from harness.trace.events import HealthSample
from tests.support.traces import END, held, judge, unexercised, violated

CLS = HealthStickyFirst
GOOD = HealthSample(True, None, "")
DEAD = HealthSample(False, "EngineCoreDead", "dead")
FIRST = HealthFailed("EngineCoreDead", "dead", True)


def test_a_first_error_that_stays_holds():
    later = HealthFailed("Decode", "x", False)
    assert held(judge(CLS, GOOD, FIRST, DEAD, later, DEAD, *END))
    assert held(judge(CLS, GOOD, DEAD, DEAD, *END, black=True))


def test_health_that_comes_back_is_violated_black_box():
    verdict = judge(CLS, HealthSample(False, None, ""), GOOD, *END, black=True)
    assert violated(verdict, 0, 1)


def test_a_cause_that_changes_is_violated():
    verdict = judge(CLS, FIRST, HealthSample(False, "Decode", "x"), *END)
    assert violated(verdict, 0, 1)
    assert verdict.expected == "EngineCoreDead: dead"
    assert verdict.seen == "Decode: x"


def test_a_second_first_failure_is_violated():
    assert violated(judge(CLS, FIRST, HealthFailed("Decode", "x", True), *END), 0, 1)


def test_a_later_failure_without_a_first_is_violated():
    assert violated(judge(CLS, HealthFailed("Decode", "x", False), *END), 0)


def test_good_health_is_not_judged():
    assert unexercised(judge(CLS, GOOD, GOOD, *END))
