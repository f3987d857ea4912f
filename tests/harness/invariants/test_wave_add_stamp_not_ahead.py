"""wave.add-stamp-not-ahead, on hand-written traces."""

from harness.invariants.wave_add_stamp_not_ahead import AddStampNotAhead
from harness.trace.events import StepBegan
from mock_engines.events import RawSent
from tests.support.traces import END, add, complete, held, judge, start, unexercised, violated

CLS = AddStampNotAhead
COORDINATED = {"coordinator": "in-process"}


def test_stamps_up_to_the_announced_wave_hold():
    trace = (add(0, "a"), complete(0, 0), add(0, "b", 1), start(1, 4), add(1, "c", 4), *END)
    assert held(judge(CLS, *trace, topology=COORDINATED))


def test_a_stamp_that_nobody_announced_is_violated_black_box():
    trace = (complete(0, 0), add(0, "a", 2), *END)
    verdict = judge(CLS, *trace, topology=COORDINATED, black=True)
    assert violated(verdict, 0, 1)
    assert verdict.expected == "current_wave <= 1"
    assert verdict.seen == "current_wave == 2 at event 1"


def test_a_stamp_above_zero_before_any_notice_is_violated():
    assert violated(judge(CLS, add(0, "a", 1), *END, topology=COORDINATED), 0)


def test_a_notice_that_is_recorded_before_the_fence_still_counts():
    trace = (add(0, "a", 1), complete(0, 0), *END)
    assert held(judge(CLS, *trace, topology=COORDINATED))


def test_a_scripted_publish_announces_its_wave():
    steps = [{"coordinator": {"publish": [None, 5, True]}}]
    trace = (StepBegan(0, "coordinator"), add(0, "a", 5), *END)
    external = {"coordinator": "external", "transport": "bootstrapped"}
    assert held(judge(CLS, *trace, topology=external, steps=steps, black=True))


def test_scripted_bytes_end_the_judgement():
    trace = (RawSent(0, "coordinator", ("00",)), add(0, "a", 9), *END)
    assert held(judge(CLS, *trace, topology=COORDINATED))


def test_without_coordinator_it_is_not_judged():
    assert unexercised(judge(CLS, add(0, "a"), *END))
