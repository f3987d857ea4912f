"""Carries out many jobs, here or by an executor, with results in stable order.

Long campaigns are divided where that keeps everybody busy: see ``harness.division``. What is
played, and what comes out, does not depend on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.cli.executors import Executor, Lost, ProcessExecutor
from harness.cli.jobs import (
    CLEAN_UP_S,
    Job,
    Task,
    Work,
    describe_error,
    execute,
    failed,
    interruptible,
)
from harness.division import Division, Outcome
from harness.failure import place_failure
from harness.results import ScenarioResult

__all__ = [
    "CLEAN_UP_S",
    "Batch",
    "Job",
    "Work",
    "describe_error",
    "execute",
    "failed",
    "interruptible",
    "run_jobs",
]

LARGE = 2_000
"""Schedules from which on a job is divided although there are jobs enough."""
SMALL = 16
"""Schedules up to which a job is never divided."""

OnResult = Callable[[ScenarioResult], None]
OnDone = Callable[[int, ScenarioResult], None]
Stops = Callable[[ScenarioResult], bool]
Wanted = Callable[[int], bool]
"""Whether the job with this index is still to be run."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What came of some jobs: results in the order of the jobs.

    ``not_run``: indices of the jobs without one, since something ended the batch before.
    """

    results: tuple[ScenarioResult, ...]
    interrupted: bool
    not_run: tuple[int, ...] = ()


def run_jobs(
    jobs: Sequence[Job],
    work: Work,
    *,
    processes: int,
    on_result: OnResult,
    stops: Stops,
    on_done: OnDone = lambda _index, _result: None,
    wanted: Wanted = lambda _index: True,
    executor: Executor | None = None,
) -> Batch:
    """Run jobs and collect their results in the order of the jobs.

    Args:
        jobs: what to run.
        work: see ``Work``.
        processes: 1 = in this process.
        on_result: told of each result, in the order of the jobs, as soon as that allows.
        stops: whether a result ends the batch. Jobs before it still count, later ones do not,
            so that the results do not depend on the number of processes.
        on_done: told of each result and the index of its job as soon as it is there, in any
            order.
        wanted: asked before a job is begun; one that is not is left out.
        executor: who carries them out, instead of processes; it is closed in the end.
    """
    if executor is None:
        if processes <= 1 or not jobs or (len(jobs) == 1 and not jobs[0].divisible):
            return _run_here(jobs, work, on_result, stops, on_done, wanted)
        executor = ProcessExecutor(processes)
    queue = _Queue(jobs, work, executor, on_result, stops, on_done, wanted)
    try:
        queue.run()
    except KeyboardInterrupt:
        # A second one ends the wait for the workers, not the report of what there is.
        with contextlib.suppress(KeyboardInterrupt):
            executor.close()
        return queue.batch(interrupted=True)
    except BaseException:
        executor.close()
        raise
    executor.close()
    return queue.batch(interrupted=False)


def _run_here(
    jobs: Sequence[Job],
    work: Work,
    on_result: OnResult,
    stops: Stops,
    on_done: OnDone,
    wanted: Wanted,
) -> Batch:
    results: dict[int, ScenarioResult] = {}
    interrupted = False
    try:
        for index, job in enumerate(jobs):
            if not wanted(index):
                continue
            result = execute(job, work)
            results[index] = result
            on_done(index, result)
            on_result(result)
            if stops(result):
                break
    except KeyboardInterrupt:
        interrupted = True
    left = tuple(index for index in range(len(jobs)) if index not in results)
    return Batch(tuple(results.values()), interrupted, left)


class _Queue:
    """Jobs on their way through an executor. Used by one ``run_jobs`` only."""

    def __init__(
        self,
        jobs: Sequence[Job],
        work: Work,
        executor: Executor,
        on_result: OnResult,
        stops: Stops,
        on_done: OnDone,
        wanted: Wanted,
    ) -> None:
        self._jobs = jobs
        self._work = work
        self._executor = executor
        self._on_result = on_result
        self._stops = stops
        self._on_done = on_done
        self._wanted = wanted
        self._left_out: set[int] = set()
        self._done: dict[int, ScenarioResult] = {}
        self._next = 0
        self._told = 0
        """Jobs below this index were given to ``on_result``."""
        self._last = len(jobs)
        """Jobs from this index on are not wanted."""
        self._divisions: dict[int, Division] = {}
        """Of the jobs that are divided and begun."""
        self._out: dict[int, tuple[int, int]] = {}
        """Tasks given to the executor: index of the job, number of the piece (0: all of it)."""
        self._tasks = 0

    def run(self) -> None:
        """Work until every wanted job has its result."""
        while True:
            while self._executor.free > 0 and self._give():
                pass
            if all(self._settled(index) for index in range(self._told, self._last)):
                return
            assert self._out, "jobs are left, but nothing can be begun"
            for number, outcome in self._executor.collect():
                self._take(number, outcome)

    def batch(self, *, interrupted: bool) -> Batch:
        """The results of the wanted jobs that are there."""
        there = [index for index in sorted(self._done) if index < self._last]
        left = sorted({*range(len(self._jobs))} - {*there})
        return Batch(tuple(self._done[index] for index in there), interrupted, tuple(left))

    def _settled(self, index: int) -> bool:
        return index in self._done or index in self._left_out

    # --- out ----------------------------------------------------------------------------------

    def _give(self) -> bool:
        """Give the executor one more task; whether there was one."""
        busy = {index for index, _ in self._out.values()} | self._divisions.keys()
        if len(busy) < self._executor.workers and self._begin():
            return True
        # The one with the fewest pieces out, so that all that are begun get their turn.
        out = [index for index, _ in self._out.values()]
        for index in sorted(self._divisions, key=lambda index: (out.count(index), index)):
            if index in self._divisions and self._give_piece(index):
                return True
        return self._begin()

    def _begin(self) -> bool:
        """Begin the next job that is wanted; whether that gave the executor a task."""
        while self._next < self._last:
            index = self._next
            self._next += 1
            job = self._jobs[index]
            if not self._wanted(index):
                self._left_out.add(index)
                self._tell()
            elif not self._divides(index):
                self._hand_over(index, 0, Task(job, self._work))
                return True
            else:
                try:
                    self._divisions[index] = Division(job.loaded, job.options)
                except Exception as error:  # noqa: BLE001 - as in ``carry_out``
                    self._finish(index, failed(job, describe_error(error)))
                    continue
                if self._give_piece(index):
                    return True
        return False

    def _divides(self, index: int) -> bool:
        """Whether a job is played in pieces: a large one, or one of the last."""
        job = self._jobs[index]
        if not job.divisible or job.options.schedules <= SMALL:
            return False
        few = len(self._jobs) - index <= 2 * self._executor.workers
        return few or job.options.schedules >= LARGE

    def _give_piece(self, index: int) -> bool:
        division, job = self._divisions[index], self._jobs[index]
        piece = division.take(self._executor.workers)
        if piece is None:
            self._end(index)
            return False
        self._hand_over(
            index, piece.number, Task(job, self._work, piece, seconds_left=division.seconds_left)
        )
        return True

    def _hand_over(self, index: int, piece: int, task: Task) -> None:
        number, self._tasks = self._tasks, self._tasks + 1
        self._out[number] = index, piece
        self._executor.give(number, task)

    # --- in -----------------------------------------------------------------------------------

    def _take(self, number: int, outcome: Outcome | Lost) -> None:
        """Take what came of a task."""
        index, piece = self._out.pop(number)
        job = self._jobs[index]
        if isinstance(outcome, Lost) and not self._counts(index, piece):
            return
        if isinstance(outcome, Lost):
            outcome = failed(job, f"the run was lost: {outcome.why}")
        if (division := self._divisions.get(index)) is not None:
            division.put(piece, outcome)
            self._end(index)
        elif isinstance(outcome, ScenarioResult) and not self._settled(index):
            self._finish(index, outcome)
        self._forget()

    def _end(self, index: int) -> None:
        """Finish a divided job if its result is there."""
        result = self._divisions[index].result
        if result is not None:
            del self._divisions[index]
            self._finish(index, result)

    def _forget(self) -> None:
        """Let go of tasks whose outcome does not count any more."""
        for index in [index for index in self._divisions if index >= self._last]:
            del self._divisions[index]
        for number, (index, piece) in self._out.items():
            if not self._counts(index, piece):
                self._executor.forget(number)

    def _counts(self, index: int, piece: int) -> bool:
        """Whether the outcome of a task may still matter."""
        if self._settled(index) or index >= self._last:
            return False
        division = self._divisions.get(index)
        return division is None or division.needs(piece)

    def _finish(self, index: int, result: ScenarioResult) -> None:
        result = _placed(result, self._jobs[index])
        self._done[index] = result
        self._on_done(index, result)
        if index < self._last and self._stops(result):
            self._last = index + 1
        self._tell()

    def _tell(self) -> None:
        while self._told < self._last and self._settled(self._told):
            if self._told in self._done:
                self._on_result(self._done[self._told])
            self._told += 1


def _placed(result: ScenarioResult, job: Job) -> ScenarioResult:
    """Write the failure file that a result brought along from another machine."""
    if result.failure_unwritten is None:
        return result
    name, text = result.failure_unwritten
    result = replace(result, failure_unwritten=None)
    try:
        return replace(result, failure_file=str(place_failure(name, text, job.options.out)))
    except OSError as error:
        return replace(result, failure_file_error=str(error))
