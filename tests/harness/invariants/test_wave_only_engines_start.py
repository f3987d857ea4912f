"""wave.only-engines-start, on hand-written traces."""

from harness.invariants.wave_only_engines_start import OnlyEnginesStart
from tests.support.traces import END, held, judge, start, unexercised, violated, wave

CLS = OnlyEnginesStart


def test_a_broadcast_that_answers_an_engine_holds():
    assert held(judge(CLS, start(1, 2), wave(0, 2, 1), *END))


def test_a_broadcast_without_a_start_is_violated_black_box():
    verdict = judge(CLS, start(1, 1), wave(0, 2, 1), *END, black=True)
    assert violated(verdict, 1)


def test_a_broadcast_that_leaves_nobody_out_is_violated():
    assert violated(judge(CLS, start(1, 2), wave(0, 2, None), *END), 1)


def test_a_start_that_another_process_records_later_still_counts():
    assert held(judge(CLS, wave(0, 2, 1), start(1, 2), *END, black=True))


def test_it_is_no_promise_of_earlier_releases():
    assert "no promise" in judge(CLS, wave(0, 2, 1), *END, release="0.32.0").reason


def test_no_broadcast_is_not_judged():
    assert unexercised(judge(CLS, *END))
