"""Plays the cells of a matrix in worker processes, the long ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.pool import Job, Work, run_jobs
from harness.cli.repeating import Repeated
from harness.matrix.classify import cell_of
from harness.matrix.model import Cell, Row
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario
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
) -> bool:
    """Play cells and tell of each one as it ends; whether an interruption ended it.

    Args:
        jobs: in any order.
        work: plays a scenario once; importable by name.
        out: folder of the reports; failure files are named relative to it.
        processes: how many workers.
        repeat: how often each cell is played; a red one at least ``RECHECKED`` times.
        on_cell: told of each finished cell, in any order.
    """
    ordered = longest_first(jobs)
    repeated = Repeated(work, repeat, recheck=True)

    def done(index: int, result: ScenarioResult) -> None:
        job = ordered[index]
        cell = cell_of(result, job.row, job.frontend)
        on_cell(job, replace(cell, failure_file=_relative(cell.failure_file, out)))

    batch = run_jobs(
        [Job(job.loaded, job.options, repeated.plays) for job in ordered],
        repeated,
        processes=processes,
        on_result=lambda _result: None,
        stops=lambda _result: False,
        on_done=done,
    )
    return batch.interrupted


def _relative(failure_file: str | None, out: Path) -> str | None:
    if failure_file is None:
        return None
    path = Path(failure_file)
    return path.relative_to(out).as_posix() if path.is_relative_to(out) else failure_file
