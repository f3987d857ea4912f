"""Plays the cells of a matrix in worker processes, the long ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.executors import Executor
from harness.cli.pool import Job, Work, run_jobs
from harness.cli.repeating import Repeated
from harness.matrix.classify import cell_of
from harness.matrix.model import Cell, Row
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario
from harness.start_failures import StartFailures
from harness.subsets import estimated_s


@dataclass(frozen=True, slots=True)
class CellJob:
    """One cell to play. ``key``: what it is stored by."""

    key: str
    row: Row
    loaded: LoadedScenario
    frontend: str
    options: RunOptions


OnCell = Callable[[CellJob, Cell], None]
OnHopeless = Callable[[str, str], None]


def longest_first(jobs: Sequence[CellJob]) -> list[CellJob]:
    """Order jobs so that no long one is left for the end; equals keep their order."""
    return sorted(jobs, key=lambda job: -estimated_s(job.loaded.scenario))


def play_cells(
    jobs: Sequence[CellJob],
    work: Work,
    *,
    out: Path,
    processes: int,
    repeat: int,
    on_cell: OnCell,
    on_hopeless: OnHopeless = lambda _frontend, _text: None,
    executor: Executor | None = None,
) -> bool:
    """Play cells and tell of each one as it ends; whether an interruption ended it.

    Args:
        jobs: in any order.
        work: plays a scenario once; importable by name.
        out: folder of the reports; failure files are named relative to it.
        processes: how many workers.
        repeat: how often each cell is played; a red one at least ``RECHECKED`` times.
        on_cell: told of each finished cell, in any order.
        on_hopeless: told of a frontend that never gets ready, and that; its other cells are left.
        executor: who plays, instead of processes of this machine.
    """
    ordered = longest_first(jobs)
    repeated = Repeated(work, repeat, recheck=True)
    starts = {job.frontend: StartFailures() for job in ordered}

    def done(index: int, result: ScenarioResult) -> None:
        job = ordered[index]
        cell = cell_of(result, job.row, job.frontend)
        on_cell(job, replace(cell, failure_file=_relative(cell.failure_file, out)))
        one, before = starts[job.frontend], starts[job.frontend].hopeless
        if one.take(result, connect_fails=job.loaded.scenario.connect_fails) and not before:
            on_hopeless(job.frontend, one.title)

    batch = run_jobs(
        [Job(job.loaded, job.options, repeated.plays) for job in ordered],
        repeated,
        processes=processes,
        on_result=lambda _result: None,
        stops=lambda _result: False,
        on_done=done,
        wanted=lambda index: not starts[ordered[index].frontend].hopeless,
        executor=executor,
    )
    return batch.interrupted


def _relative(failure_file: str | None, out: Path) -> str | None:
    if failure_file is None:
        return None
    path = Path(failure_file)
    return path.relative_to(out).as_posix() if path.is_relative_to(out) else failure_file
