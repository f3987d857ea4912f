"""wave.engine-start-rebroadcast-once, on hand-written traces."""

from client.events import WaveNoticeHandled
from harness.invariants.wave_engine_start_rebroadcast_once import EngineStartRebroadcastOnce
from mock_engines.events import EngineJoined
from tests.support.traces import END, complete, held, judge, start, unexercised, violated, wave

CLS = EngineStartRebroadcastOnce
JOINED = (EngineJoined(0, b"\0\0", True), EngineJoined(1, b"\1\0", True))


def handled(
    number: int, before: tuple[int, bool], after: tuple[int, bool], broadcast: bool
) -> WaveNoticeHandled:
    return WaveNoticeHandled("start", 1, number, *before, *after, broadcast)


TAKES_EFFECT = handled(3, (3, False), (3, True), True)


def test_a_start_that_takes_effect_and_reaches_all_holds():
    trace = (*JOINED, start(1, 3), TAKES_EFFECT, wave(0, 3, 1), wave(1, 3, 1), *END)
    assert held(judge(CLS, *trace))


def test_a_start_of_a_running_or_old_wave_does_nothing():
    assert held(judge(CLS, handled(3, (3, True), (3, True), False), *END))
    assert held(judge(CLS, handled(2, (3, False), (3, False), False), *END))


def test_a_start_without_effect_that_is_broadcast_is_violated():
    verdict = judge(CLS, handled(3, (3, True), (3, True), True), *END)
    assert violated(verdict, 0)
    assert verdict.expected == "wave 3, running True, broadcast False"
    assert verdict.seen == "wave 3, running True, broadcast True"


def test_a_start_with_effect_that_is_kept_quiet_is_violated():
    assert violated(judge(CLS, handled(4, (3, True), (3, True), False), *END), 0)


def test_a_broadcast_that_an_engine_never_saw_is_violated():
    assert violated(judge(CLS, *JOINED, TAKES_EFFECT, wave(0, 3, 1), *END), 2)


def test_a_broadcast_that_leaves_out_another_engine_is_violated():
    trace = (*JOINED, TAKES_EFFECT, wave(0, 3, 0), wave(1, 3, 0), *END)
    assert violated(judge(CLS, *trace), 2)


def test_a_broadcast_that_no_event_explains_is_violated():
    trace = (*JOINED, TAKES_EFFECT, wave(0, 3, 1), wave(1, 3, 1), wave(0, 4, 1), *END)
    assert violated(judge(CLS, *trace), 5)


def test_a_second_broadcast_is_violated_black_box():
    trace = (start(1, 3), wave(0, 3, 1), wave(0, 3, 1), *END)
    assert violated(judge(CLS, *trace, black=True), 0, 1, 2)


def test_a_wrong_sender_is_violated_black_box():
    assert violated(judge(CLS, start(1, 3), wave(0, 3, 0), *END, black=True), 0, 1)


def test_one_broadcast_holds_black_box():
    trace = (complete(0, 2), start(1, 3), wave(0, 3, 1), wave(1, 3, 1), *END)
    assert held(judge(CLS, *trace, black=True))


def test_a_scripted_engine_index_is_not_compared_black_box():
    notice = {"start_wave": {"wave": 3, "engine_index": 77}}
    steps = [{"engine": {"engine": 1, "do": notice}}]
    assert held(judge(CLS, start(1, 3), wave(0, 3, 77), *END, black=True, steps=steps))


def test_no_start_is_not_judged():
    assert unexercised(judge(CLS, *JOINED, complete(0, 0), *END))
