"""wave.never-rewinds, on hand-written traces."""

from client.events import FirstRequestHandled, WaveNoticeHandled
from client.protocol.ids import STALE_PROBE_INDEX
from harness.invariants.wave_never_rewinds import WaveNeverRewinds
from harness.trace.events import StepBegan
from mock_engines.events import StartWaveSeen
from tests.support.traces import END, held, judge, unexercised, violated, wave


def handled(before: int, after: int) -> FirstRequestHandled:
    return FirstRequestHandled(1, after, before, False, after, True, after, 1)


def test_broadcasts_with_rising_waves_hold():
    assert held(judge(WaveNeverRewinds, wave(0, 1), wave(1, 1), wave(0, 1), wave(0, 4), *END))


def test_a_smaller_wave_at_one_engine_is_violated_black_box():
    verdict = judge(WaveNeverRewinds, wave(0, 4), wave(1, 3), wave(0, 3), *END, black=True)
    assert violated(verdict, 0, 2)
    assert verdict.expected == "wave >= 4 after event 0"
    assert verdict.seen == "wave == 3 at event 2"


def test_a_coordinator_that_goes_back_is_violated():
    assert violated(judge(WaveNeverRewinds, handled(4, 3)), 0)


def test_a_coordinator_that_went_back_between_two_inputs_is_violated():
    complete = WaveNoticeHandled("complete", 0, 4, 4, True, 5, False, False)
    assert violated(judge(WaveNeverRewinds, complete, handled(4, 4)), 0, 1)


def test_waves_at_two_engines_are_not_compared():
    assert unexercised(judge(WaveNeverRewinds, wave(0, 4), wave(1, 3), *END))


def test_a_restarted_coordinator_begins_anew():
    step = {"coordinator": {"start": True}}
    verdict = judge(
        WaveNeverRewinds,
        wave(0, 4),
        wave(0, 5),
        StepBegan(0, "coordinator"),
        wave(0, 0),
        wave(0, 1),
        steps=[step],
    )
    assert held(verdict)


PROBING = [{"engine": {"do": {"flood": {"stale_probes": True}}}}]


def test_a_stale_probe_that_is_passed_on_is_violated_black_box():
    probe = StartWaveSeen(1, 3, STALE_PROBE_INDEX)
    verdict = judge(
        WaveNeverRewinds, wave(1, 3), probe, wave(1, 4), *END, black=True, steps=PROBING
    )
    assert violated(verdict, 0, 1)
    assert verdict.expected == "the stale start_wave of wave 3 is ignored"
    assert verdict.seen == "START_DP_WAVE of wave 3 at event 1"


def test_the_index_of_probes_means_nothing_where_nobody_probes():
    largest = StartWaveSeen(1, 3, STALE_PROBE_INDEX)
    assert held(judge(WaveNeverRewinds, wave(1, 3), largest, *END))
    probed_rank = judge(
        WaveNeverRewinds, wave(1, 3), largest, *END, ranks=(1, 65535), steps=PROBING
    )
    assert held(probed_rank)


def test_no_broadcast_is_not_judged():
    assert unexercised(judge(WaveNeverRewinds, *END))
