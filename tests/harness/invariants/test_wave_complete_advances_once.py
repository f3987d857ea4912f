"""wave.complete-advances-once, on hand-written traces."""

from client.events import CoordinatorPublished, WaveNoticeHandled
from harness.invariants.wave_complete_advances_once import CompleteAdvancesOnce
from mock_engines.events import RawSent
from tests.support.traces import END, complete, held, judge, start, unexercised, violated, wave

CLS = CompleteAdvancesOnce


def handled(number: int, before: int, after: int, broadcast: bool = False) -> WaveNoticeHandled:
    running_after = number < before
    return WaveNoticeHandled("complete", 0, number, before, True, after, running_after, broadcast)


def test_a_completion_that_advances_by_one_or_jumps_ahead_holds():
    assert held(judge(CLS, handled(4, 4, 5), handled(9, 5, 10), *END))


def test_a_repeated_completion_that_does_nothing_holds():
    assert held(judge(CLS, handled(4, 4, 5), handled(4, 5, 5), *END))


def test_a_repeated_completion_that_advances_again_is_violated():
    verdict = judge(CLS, complete(0, 4), handled(4, 4, 5), handled(4, 5, 6), *END)
    assert violated(verdict, 2)
    assert verdict.expected == "wave 5, running True, broadcast False"


def test_a_completion_that_is_broadcast_is_violated():
    assert violated(judge(CLS, handled(4, 4, 5, broadcast=True), *END), 0)


def test_a_broadcast_above_all_that_was_announced_is_violated_black_box():
    trace = (complete(0, 0), complete(1, 0), wave(0, 2, 1), *END)
    assert violated(judge(CLS, *trace, black=True), 0, 2)


def test_a_broadcast_of_an_announced_wave_holds_black_box():
    trace = (complete(0, 0), complete(1, 0), wave(0, 1, 1), *END)
    assert held(judge(CLS, *trace, black=True))


def test_a_notice_that_another_process_records_later_still_counts():
    trace = (complete(0, 0), wave(0, 5, 1), start(1, 5), *END)
    assert held(judge(CLS, *trace, black=True))


def test_scripted_bytes_end_the_judgement():
    raw = RawSent(0, "coordinator", ("00",))
    assert held(judge(CLS, complete(0, 0), raw, wave(0, 7, 1), *END, black=True))


def test_a_publish_announces_its_wave():
    published = CoordinatorPublished(None, 7, False)
    assert held(judge(CLS, handled(0, 0, 1), published, wave(0, 7, 1), *END))


def test_no_completion_is_not_judged():
    assert unexercised(judge(CLS, start(0, 0), wave(0, 0, 0), *END))
