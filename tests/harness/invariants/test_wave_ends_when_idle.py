"""wave.ends-when-idle holds for a wave that ends behind its work, and fails without that end."""

from __future__ import annotations

import pytest

from harness.invariants.wave_ends_when_idle import EndsWhenIdle
from harness.trace.events import StepBegan
from mock_engines.events import (
    AddSeen,
    EngineDied,
    EngineJoined,
    EngineStalled,
    OutputSent,
    UtilityApplied,
    WaveNoticeSent,
)
from tests.support.traces import END, call, cancelled, held, judge, unexercised, violated

TOPOLOGY = {"engines": 2, "coordinator": "in-process"}
JOINED = (EngineJoined(0, b"\0\0", True), EngineJoined(1, b"\1\0", True))
END_OF_A = OutputSent(0, "a", (1,), "stop")
COMPLETE = WaveNoticeSent(0, "complete", 0)


def add(request_id="a", engine=0, wave=0):
    return AddSeen(engine, request_id, request_id, wave, None, 0, (), "", ())


def verdict(*events, topology=TOPOLOGY, **parts):
    return judge(EndsWhenIdle, *JOINED, *events, *END, topology=topology, **parts)


def test_wave_that_ends_behind_its_request_holds():
    found = verdict(add(), END_OF_A, COMPLETE)
    assert held(found)
    assert found.exercised == 1


def test_wave_that_never_ends_is_violated():
    found = verdict(add(), END_OF_A)
    assert violated(found, 2, 3)
    assert found.seen == "no wave_complete"


def test_wave_that_ends_before_its_request_is_violated():
    assert violated(verdict(add(), COMPLETE, END_OF_A), 2, 4)


def test_second_wave_that_never_ends_is_violated():
    again = (add("b", wave=1), OutputSent(0, "b", (1,), "stop"))
    assert violated(verdict(add(), END_OF_A, COMPLETE, *again), 5, 6)
    ended = WaveNoticeSent(0, "complete", 1)
    assert held(verdict(add(), END_OF_A, COMPLETE, *again, ended))


def test_wave_that_is_reported_complete_twice_is_violated():
    found = verdict(add(), END_OF_A, COMPLETE, WaveNoticeSent(1, "complete", 0))
    assert violated(found, 4, 5)
    assert found.expected == "one wave_complete 0"


@pytest.mark.parametrize(
    "odd",
    [
        EngineDied(1, "close"),
        EngineStalled(1, "gate"),
        UtilityApplied(1, 7, "pause", "paused='keep'"),
        EngineJoined(1, b"\1\0", True),
    ],
)
def test_engine_that_leaves_the_exchange_is_not_judged(odd):
    assert unexercised(verdict(add(), odd, END_OF_A))


def test_request_that_is_still_open_is_not_judged():
    assert unexercised(verdict(add()))


def test_engine_that_never_joined_is_not_judged():
    events = (JOINED[0], add(), END_OF_A, *END)
    assert unexercised(judge(EndsWhenIdle, *events, topology=TOPOLOGY))


@pytest.mark.parametrize(
    "parts",
    [
        {"topology": {"engines": 2}},
        {"topology": {**TOPOLOGY, "waves": "script"}},
        {"engines": [{"rules": [{"on": "add", "do": [{"drop": True}]}]}]},
        {"engines": [{"rules": [{"on": "start_wave", "do": [{"hang": "g"}]}]}]},
        {"engines": [{"engine": 0, "join": {"subscribe_times": 2}}]},
        {"steps": [{"engine": {"engine": 0, "do": [{"wave_complete": 3}]}}]},
        {"steps": [{"link": {"engine": "coordinator", "fail": "gone"}}]},
    ],
)
def test_scenario_that_speaks_of_waves_itself_is_not_judged(parts):
    assert unexercised(verdict(add(), END_OF_A, **parts))


def test_coordinator_that_is_restarted_is_not_judged():
    external = {"engines": 2, "coordinator": "external", "transport": "bootstrapped"}
    steps = [{"coordinator": {"stop": True}}]
    began = StepBegan(0, "coordinator")
    assert unexercised(verdict(began, add(), END_OF_A, topology=external, steps=steps))
    assert violated(verdict(add(), END_OF_A, topology=external, steps=steps), 2, 3)


def test_caller_who_left_before_the_add_did_is_not_judged():
    gone = (call("b"), cancelled("b"))
    assert unexercised(verdict(call("a"), *gone, add(), END_OF_A))
    assert violated(verdict(call("a"), add(), cancelled("a"), END_OF_A), 3, 5)


def test_black_box_is_not_judged():
    assert "target lacks" in verdict(add(), END_OF_A, black=True).reason


@pytest.mark.parametrize("spoken", [{"publish": [[], 4, True]}, {"publish_raw": ["00"]}])
def test_wave_of_which_a_script_speaks_is_not_judged(spoken):
    external = {"engines": 2, "coordinator": "external", "transport": "bootstrapped"}
    assert violated(verdict(add(), END_OF_A, topology=external), 2, 3)
    steps = [{"coordinator": spoken}]
    assert unexercised(verdict(add(), END_OF_A, topology=external, steps=steps))
