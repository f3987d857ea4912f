"""Runs behind an adapter: commands of adapters, and proof that no process stays."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.results import ScenarioResult
from harness.runner import RunOptions, cached_target, run_scenario
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.targets.adapter import idle
from harness.targets.adapter.process import AdapterProcess

ROOT = Path(__file__).parents[2]


def python(*words: str) -> str:
    """The command line of a Python that finds ``tests.support``."""
    return shlex.join(["/usr/bin/env", f"PYTHONPATH={ROOT}", sys.executable, *words])


def command(module: str, *words: str) -> str:
    """The command line of an adapter in ``tests.support``."""
    return python("-m", f"tests.support.{module}", *words)


SMALL = command("small_adapter")


def faulty(do: str, fault: str) -> str:
    """The shipped adapter with one fault."""
    return command("faulty_adapter", do, fault)


def builtin(*names: str) -> list[LoadedScenario]:
    """Scenarios by id, in the order of the names; all of them without a name."""
    found = {one.id: one for one in selection.load_all(selection.select(names))}
    return [found[name] for name in names] if names else list(found.values())


def judged(
    loaded: LoadedScenario, out: Path, adapter: str | None = None, **more: object
) -> ScenarioResult:
    """Run one scenario behind an adapter; failure files go to ``out``."""
    options = RunOptions(target="adapter", adapter=adapter, out=out, **more)  # type: ignore[arg-type]
    return run_scenario(loaded, options)


@contextmanager
def no_process_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield the ids of the processes that are started; in the end none of them may be there."""
    started: list[int] = []
    start = AdapterProcess.start

    def note(self: AdapterProcess) -> None:
        start(self)
        assert self.pid is not None
        started.append(self.pid)

    monkeypatch.setattr(AdapterProcess, "start", note)
    close_all()
    try:
        yield started
    finally:
        close_all()
    assert [pid for pid in started if is_there(pid)] == []


def close_all() -> None:
    """End the processes that wait for their next run, and forget the targets."""
    idle.close_idle()
    cached_target.cache_clear()


def is_there(pid: int) -> bool:
    """Whether a process has this id, be it one that nobody reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
