"""Carries out runs, in this process or in worker processes, with results in stable order.

Workers die with their parent, whatever ends it; an interruption reaches each of them once, and
they clean up before they go. A run that takes too long is interrupted like by a person, then
killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType

from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario
from harness.verdict import ERROR

CLEAN_UP_S = 10.0
"""Seconds that an interrupted run gets to release everything before it is killed."""
PR_SET_PDEATHSIG = 1
"""``prctl`` option: signal to receive when the parent dies (Linux)."""

Work = Callable[[LoadedScenario, RunOptions], ScenarioResult]
"""Runs one scenario; importable by name, so that a worker process finds it."""
OnResult = Callable[[ScenarioResult], None]
OnDone = Callable[[int, ScenarioResult], None]
Stops = Callable[[ScenarioResult], bool]


@dataclass(frozen=True, slots=True)
class Job:
    """One scenario with the options of its run.

    ``plays``: how often the work may play it; if more than once, the work itself holds each
    play to the time limit.
    """

    loaded: LoadedScenario
    options: RunOptions
    plays: int = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """What came of some jobs: results in the order of the jobs."""

    results: tuple[ScenarioResult, ...]
    interrupted: bool


# --- one job --------------------------------------------------------------------------------


def execute(job: Job, work: Work) -> ScenarioResult:
    """Run one job within its time limit; what raises becomes a result with status ``error``.

    Raises:
        KeyboardInterrupt: interrupted by a person.
    """
    with _time_limit(job.options.timeout_s if job.plays == 1 else None) as limit:
        try:
            return work(job.loaded, job.options)
        except KeyboardInterrupt:
            if not limit.expired:
                raise
            return failed(job, f"stopped after the time limit of {job.options.timeout_s:g} s")
        except Exception as error:  # noqa: BLE001 - one broken run must not end the others
            return failed(job, describe_error(error))


def failed(job: Job, error: str) -> ScenarioResult:
    """The result of a job that could not be judged."""
    scenario, options = job.loaded.scenario, job.options
    return ScenarioResult(
        scenario=job.loaded.id,
        title=scenario.title,
        refs=tuple(scenario.refs),
        profile=options.profile or "",
        mutant=options.mutant,
        status=ERROR,
        error=error,
        strategy=options.strategy,
        seed=options.seed,
    )


def describe_error(error: BaseException) -> str:
    """One line on an error of ours: class, text, and the place that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


class _Limit:
    """Whether the time limit of a run has passed."""

    def __init__(self) -> None:
        self.expired = False

    def ring(self, _signum: int, _frame: FrameType | None) -> None:
        """Interrupt the run as a person would: its own handler, if any, cleans up."""
        self.expired = True
        signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[_Limit]:
    """Interrupt what runs inside after ``seconds``, and again each ``CLEAN_UP_S``."""
    limit = _Limit()
    main_thread = threading.current_thread() is threading.main_thread()
    if seconds is None or not main_thread or not hasattr(signal, "SIGALRM"):
        with interruptible():
            yield limit
        return
    before = signal.signal(signal.SIGALRM, limit.ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, CLEAN_UP_S)
    try:
        with interruptible():
            yield limit
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise ``KeyboardInterrupt`` inside, then restore the handlers.

    A real world replaces the handlers while it runs and resets them to the system's defaults,
    so this goes round each run and round the whole command.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        signum: signal.signal(signum, signal.default_int_handler)
        for signum in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


# --- many jobs ------------------------------------------------------------------------------


def run_jobs(
    jobs: Sequence[Job],
    work: Work,
    *,
    processes: int,
    on_result: OnResult,
    stops: Stops,
    on_done: OnDone = lambda _index, _result: None,
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
    """
    if processes <= 1 or len(jobs) <= 1:
        return _run_here(jobs, work, on_result, stops, on_done)
    pool = _Pool(jobs, work, on_result, stops, on_done)
    try:
        pool.run(min(processes, len(jobs)))
    except KeyboardInterrupt:
        pool.close(signal.SIGINT)
        return Batch(pool.results(), interrupted=True)
    except BaseException:
        pool.close(signal.SIGINT)
        raise
    pool.close(signal.SIGINT)
    return Batch(pool.results(), interrupted=False)


def _run_here(
    jobs: Sequence[Job], work: Work, on_result: OnResult, stops: Stops, on_done: OnDone
) -> Batch:
    results: list[ScenarioResult] = []
    try:
        for index, job in enumerate(jobs):
            result = execute(job, work)
            results.append(result)
            on_done(index, result)
            on_result(result)
            if stops(result):
                break
    except KeyboardInterrupt:
        return Batch(tuple(results), interrupted=True)
    return Batch(tuple(results), interrupted=False)


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    link: Connection
    index: int | None = None
    """The job that it runs."""
    deadline: float | None = None
    """When it is killed, on the monotonic clock."""


class _Pool:
    """Worker processes and what they do. Used by one ``run_jobs`` only."""

    def __init__(
        self,
        jobs: Sequence[Job],
        work: Work,
        on_result: OnResult,
        stops: Stops,
        on_done: OnDone,
    ) -> None:
        self._on_done = on_done
        self._jobs = jobs
        self._work = work
        self._on_result = on_result
        self._stops = stops
        self._done: dict[int, ScenarioResult] = {}
        self._next = 0
        self._told = 0
        """Jobs below this index were given to ``on_result``."""
        self._last = len(jobs)
        """Jobs from this index on are not wanted."""
        self._workers: list[_Worker] = []
        self._context = multiprocessing.get_context("spawn")

    def run(self, processes: int) -> None:
        """Work until every wanted job has its result."""
        for _ in range(processes):
            self._start()
        while any(index not in self._done for index in range(self._last)):
            for worker in list(self._workers):
                if worker.index is None and self._next < self._last:
                    self._give(worker)
            self._collect()

    def results(self) -> tuple[ScenarioResult, ...]:
        """Results of the wanted jobs that are there."""
        return tuple(self._done[index] for index in sorted(self._done) if index < self._last)

    def close(self, signum: signal.Signals) -> None:
        """Interrupt the workers, let them clean up, kill what is left after that."""
        for worker in self._workers:
            if worker.index is not None and worker.process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.process.pid, signum)
            worker.link.close()
        try:
            until = _now() + CLEAN_UP_S
            for worker in self._workers:
                worker.process.join(max(0.0, until - _now()))
        finally:
            for worker in self._workers:
                worker.process.kill()
                worker.process.join()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_worker, args=(theirs, self._work, os.getpid()), name="wavecheck worker"
        )
        # Its first use unblocks SIGINT; so it must come before.
        resource_tracker.ensure_running()
        # Until it is ready, an interruption waits: it would end in the middle of an import. Here
        # it would lose sight of a worker that was just started.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, ours))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _give(self, worker: _Worker) -> None:
        job = self._jobs[self._next]
        worker.index = self._next
        self._next += 1
        if (limit := job.options.timeout_s) is not None:
            worker.deadline = _now() + limit * job.plays + 2 * CLEAN_UP_S
        # A worker that died is noticed when its end of the pipe is read.
        with contextlib.suppress(BrokenPipeError):
            worker.link.send(job)

    def _collect(self) -> None:
        now = _now()
        deadlines = [w.deadline for w in self._workers if w.deadline is not None]
        timeout = max(0.0, min(deadlines) - now) if deadlines else None
        ready = wait([worker.link for worker in self._workers], timeout)
        for worker in list(self._workers):
            if worker.link in ready:
                self._receive(worker)
            elif worker.deadline is not None and worker.deadline <= _now():
                worker.process.kill()
                self._lost(worker, "it did not stop at its time limit and was killed")

    def _receive(self, worker: _Worker) -> None:
        try:
            result: ScenarioResult = worker.link.recv()
        except (EOFError, OSError):
            worker.process.join()
            self._lost(worker, f"its worker process ended with code {worker.process.exitcode}")
            return
        assert worker.index is not None
        self._finish(worker.index, result)
        worker.index = worker.deadline = None

    def _lost(self, worker: _Worker, why: str) -> None:
        """Replace a worker that is gone; its job could not be judged."""
        self._workers.remove(worker)
        worker.link.close()
        worker.process.join()
        if worker.index is not None:
            self._finish(worker.index, failed(self._jobs[worker.index], f"the run was lost: {why}"))
        if self._next < self._last:
            self._start()

    def _finish(self, index: int, result: ScenarioResult) -> None:
        self._done[index] = result
        self._on_done(index, result)
        if index < self._last and self._stops(result):
            self._last = index + 1
        while self._told < self._last and self._told in self._done:
            self._on_result(self._done[self._told])
            self._told += 1


def _now() -> float:
    """Seconds on the wall's clock: workers are killed in real time, and decide nothing."""
    return time.monotonic()  # noqa: TID251 - no simulated run reads it


def _worker(link: Connection, work: Work, parent: int) -> None:
    """Main loop of a worker process: take jobs until the pipe closes."""
    die_with(parent)
    # A terminal's Ctrl-C goes to a whole process group; the parent passes it on, once.
    os.setpgid(0, 0)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while True:
            link.send(execute(link.recv(), work))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        # What remains is Python's own shutdown.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def die_with(parent: int) -> None:
    """Have the system kill this process when process ``parent``, which started it, ends.

    Linux only; elsewhere an orphan ends when it next reads its pipe.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        # It ended before the call.
        os._exit(1)
