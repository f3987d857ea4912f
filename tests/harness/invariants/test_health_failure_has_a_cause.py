"""health.failure-has-a-cause, on hand-written traces."""

import pytest

from client.events import HealthFailed
from harness.invariants.health_failure_has_a_cause import FailureHasACause
from harness.trace.events import StepBegan
from mock_engines.events import EngineDied, RawSent, StatsSent, WaveNoticeSent
from tests.support.traces import END, held, judge, out, unexercised, violated

CLS = FailureHasACause
FAILED = HealthFailed("UnexpectedDispatcherOutput", "for nobody", True)


def test_a_client_that_stays_sound_holds():
    assert held(judge(CLS, out(0, "gone"), *END))
    assert unexercised(judge(CLS, *END))


def test_a_client_that_was_shut_down_holds():
    assert held(judge(CLS, out(0, "a"), HealthFailed("ClientClosed", "", True), *END))


def test_a_client_that_fails_for_a_late_output_is_violated():
    assert violated(judge(CLS, out(0, "gone"), FAILED, *END), 0, 1)
    assert violated(judge(CLS, FAILED, *END), 0)


@pytest.mark.parametrize(
    "cause",
    [
        EngineDied(0, "sentinel"),
        RawSent(0, "main", ("c1",)),
        out(0, "a", -1),
        StatsSent(0, 0, -1, 0, "main"),
        WaveNoticeSent(0, "start", 1 << 32),
    ],
)
def test_a_cause_excuses_the_failure(cause):
    assert held(judge(CLS, cause, FAILED, *END))


def test_an_engine_that_closes_without_a_word_is_no_cause():
    assert violated(judge(CLS, EngineDied(0, "close"), FAILED, *END), 1)


@pytest.mark.parametrize(
    "parts",
    [
        {"engines": [{"engine": 0, "join": {"identity": "010000"}}]},
        {"steps": [{"link": {"engine": "coordinator", "fail": "gone"}}]},
        {"topology": {"engines": 2, "engine_release": "0.31.0"}},
    ],
)
def test_odd_scenarios_are_left_out(parts):
    assert held(judge(CLS, FAILED, *END, **parts))


def test_a_coordinator_that_speaks_by_script_is_a_cause():
    steps = [{"coordinator": {"publish_raw": ["c1"]}}]
    external = {"engines": 2, "coordinator": "external", "transport": "bootstrapped"}
    began = StepBegan(0, "coordinator")
    assert held(judge(CLS, began, FAILED, *END, topology=external, steps=steps))


def test_a_black_box_cannot_show_it():
    assert "target lacks" in judge(CLS, *END, black=True).reason
