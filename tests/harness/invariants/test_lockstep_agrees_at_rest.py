"""lockstep.agrees-at-rest compares engines, coordinator and frontend at fences."""

from __future__ import annotations

import pytest

from client.events import FirstRequestHandled, HealthFailed, WaveNoticeHandled
from harness.invariants.lockstep_agrees_at_rest import AgreesAtRest
from harness.trace.events import Fenced, Healed, RunEnded, Snapshot, StepBegan
from mock_engines.events import EngineStalled, RawSent
from tests.support.lockstep import IDLE, JOINED, born, moved, stuck, verdict
from tests.support.traces import held, unexercised, violated

BEGIN = (*JOINED, *born())
REST = (moved(0, wave=1), moved(1, wave=1))
FENCED = (*IDLE, Fenced("step"))
EXTERNAL = {"coordinator": "external", "transport": "bootstrapped"}


def completed(wave_after=1, *, running=False):
    return WaveNoticeHandled("complete", 0, 0, 0, True, wave_after, running, False)


def shot(wave, *, running=False):
    return Snapshot("end", (), (), ((0, 0), (1, 0)), wave, running)


def judge(*events, **parts):
    return verdict(AgreesAtRest, *BEGIN, *events, **parts)


def test_one_view_of_all_holds():
    found = judge(*REST, completed(), shot(1), *FENCED)
    assert held(found)
    assert found.exercised == 1


def test_engines_in_different_waves_are_violated_on_a_black_box_too():
    found = judge(moved(0, wave=1), *FENCED, black=True)
    assert violated(found, 3, 4, 7)
    assert found.seen == "engine 0: wave 1; engine 1: wave 0"


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (completed(2), "the coordinator: wave 2, not running"),
        (completed(running=True), "the coordinator: wave 1, running"),
    ],
)
def test_coordinator_of_another_view_is_violated(view, says):
    found = judge(*REST, view, *FENCED)
    assert violated(found, 4, 5, 6, 9)
    assert (found.expected, found.seen) == ("wave 1, not running", says)


def test_coordinator_that_heard_nothing_is_at_wave_0():
    assert held(judge(*FENCED))
    assert violated(judge(*REST, *FENCED), 4, 5, 8)


def test_frontend_of_another_view_is_violated():
    found = judge(*REST, completed(), shot(0), *FENCED)
    assert violated(found, 4, 5, 7, 10)
    assert found.seen == "the frontend: wave 0, not running"


def test_what_a_frontend_believes_of_paused_engines_is_not_compared():
    paused = [moved(rank, wave=1, pause="all", ignores_starts=True) for rank in (0, 1)]
    first = FirstRequestHandled(0, 1, 1, False, 1, True, 1, 0)
    assert held(judge(*paused, first, *FENCED))
    found = judge(*paused, FirstRequestHandled(0, 1, 2, False, 2, True, 2, 0), *FENCED)
    assert violated(found, 4, 5, 6, 9)
    assert found.expected == "wave 1"


def test_external_coordinator_is_compared_and_its_frontend_is_not():
    assert held(judge(*REST, completed(), shot(0), *FENCED, topology=EXTERNAL))
    assert violated(judge(*REST, completed(2), *FENCED, topology=EXTERNAL), 4, 5, 6, 9)


@pytest.mark.parametrize(
    "odd",
    [
        stuck((0, "forward")),
        EngineStalled(1, "g"),
        JOINED[1],
        StepBegan(0, "link"),
        RawSent(0, "coordinator", ("ff",)),
        HealthFailed("Transport", "", first=True),
        moved(0, running=True, wave=1),
    ],
)
def test_what_is_not_at_rest_or_of_one_piece_is_not_judged(odd):
    looked = (*IDLE, odd, Fenced("step"))
    assert unexercised(judge(*REST, *looked))


def test_link_that_was_held_is_judged_once_all_is_healed():
    end = (Healed(), *IDLE, Fenced("end"), RunEnded(()))
    found = judge(*REST, StepBegan(0, "link"), *FENCED, *end)
    assert violated(found, 4, 5, 13)


def test_two_frontends_are_not_judged():
    assert unexercised(judge(*REST, *FENCED, topology={**EXTERNAL, "frontends": 2}))


def test_coordinator_that_speaks_by_script_is_not_judged():
    steps = [{"coordinator": {"stop": True}}]
    began = StepBegan(0, "coordinator")
    assert unexercised(judge(began, *REST, *FENCED, topology=EXTERNAL, steps=steps))


def test_frontend_that_tells_no_wave_is_not_compared():
    silent = Snapshot("end", (), (), ((0, 0), (1, 0)), None, None)
    assert held(judge(*REST, completed(), silent, *FENCED))
    half = Snapshot("end", (), (), ((0, 0), (1, 0)), 0, None)
    assert held(judge(*REST, completed(), half, *FENCED))
