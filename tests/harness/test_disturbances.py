"""What somebody else does to the processes of a run is told as that, and is no verdict."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

import mock_engines.process
from harness import descriptors
from harness.descriptors import make_room, needed_for
from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.targets.base import TargetError
from harness.worlds import ZmqWorld
from mock_engines.process import ProcessEngine
from mock_engines.spawn import ChildProcess, is_stopped, spawn

STALLS = "lifecycle/a-stalled-engine-goes-on"
"""One of its engines runs in a process of its own."""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs proc(5)")


def play(name: str = STALLS, **options: Any) -> ScenarioResult:
    (loaded,) = selection.load_all(selection.select([name]))
    return run_scenario(loaded, RunOptions(target="zmq", **options))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[ChildProcess], None]], None]:
    """Return a function that takes what is done to the process of an engine once it is started."""

    def set_to(do: Callable[[ChildProcess], None]) -> None:
        async def spawn_and_do() -> Any:
            process, pipe = await spawn()
            do(process)
            return process, pipe

        monkeypatch.setattr(mock_engines.process, "spawn", spawn_and_do)

    return set_to


def test_engine_process_that_somebody_kills_ends_the_run_at_once_and_judges_nothing(
    started: Any,
) -> None:
    started(lambda process: os.kill(process.pid, signal.SIGKILL))
    result = play()
    assert result.status == "error"
    assert result.error is not None
    assert "the process of engine 1 was killed (SIGKILL), and not by this run" in result.error
    assert result.duration_s < ZmqWorld.step_limit_s


@LINUX
def test_engine_process_that_somebody_stops_for_good_judges_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ZmqWorld, "step_limit_s", 1.0)
    pids: list[int] = []
    joined = ProcessEngine.joined

    async def joined_and_stopped(self: ProcessEngine) -> None:
        await joined(self)
        if not pids:
            assert self.process_id is not None
            pids.append(self.process_id)
            os.kill(pids[0], signal.SIGSTOP)

    monkeypatch.setattr(ProcessEngine, "joined", joined_and_stopped)
    result = play()
    assert result.status == "error"
    assert result.error is not None
    assert "the process of engine 1 stands still (SIGSTOP)" in result.error
    assert len(pids) == 1
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []


def test_engine_process_that_is_stopped_and_continued_changes_no_verdict(started: Any) -> None:
    def stop_and_go_on(process: ChildProcess) -> None:
        os.kill(process.pid, signal.SIGSTOP)
        loop = asyncio.get_running_loop()
        loop.call_later(0.3, os.kill, process.pid, signal.SIGCONT)

    started(stop_and_go_on)
    assert play().status == "held"


@LINUX
def test_process_that_a_scenario_stops_is_no_disturbance() -> None:
    assert not is_stopped(os.getpid())
    assert play().status == "held"


# --- descriptors ----------------------------------------------------------------------------


class Limits:
    """Stands for the system's limits; ``soft`` is what was set."""

    RLIMIT_NOFILE = 7

    def __init__(self, soft: int, hard: int) -> None:
        self.soft, self.hard = soft, hard

    def getrlimit(self, _which: int) -> tuple[int, int]:
        return self.soft, self.hard

    def setrlimit(self, _which: int, limits: tuple[int, int]) -> None:
        self.soft, self.hard = limits


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], Limits]:
    def set_to(soft: int, hard: int) -> Limits:
        found = Limits(soft, hard)
        monkeypatch.setitem(sys.modules, "resource", found)
        monkeypatch.setattr(descriptors, "_open_now", lambda _limit: 10)
        return found

    return set_to


def test_limit_of_descriptors_is_raised_to_what_a_run_takes_and_refused_below(limits: Any) -> None:
    (loaded,) = selection.load_all(selection.select([STALLS]))
    scenario = loaded.scenario
    needed = needed_for(scenario)
    callers = descriptors.EACH_CALLER * len(scenario.steps)
    enough = limits(1_000, 1_000)
    make_room(scenario)
    assert enough.soft == 1_000
    low = limits(16, 10_000)
    make_room(scenario)
    assert low.soft == 10 + needed + callers
    just = limits(16, 10 + needed)
    make_room(scenario)
    assert just.soft == 10 + needed
    limits(16, 10 + needed - 1)
    with pytest.raises(TargetError, match="too few file descriptors"):
        make_room(scenario)
    unlimited = limits(16, -1)
    make_room(scenario)
    assert unlimited.soft == 10 + needed + callers
