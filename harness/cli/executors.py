"""Who carries out tasks: the interface, and worker processes of this machine.

Workers die with their parent, whatever ends it; an interruption reaches each of them once, and
they clean up before they go. A task that takes too long is interrupted like by a person, then
killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from harness.awake import CLOCK
from harness.cli.jobs import CLEAN_UP_S, Task, carry_out
from harness.cli.worker_process import begin
from harness.division import Outcome
from harness.interruption import SIGNALS
from mock_engines.spawn import is_stopped

HUNG = "it did not stop at its time limit and was killed"
STOPPED = (
    "its worker process stood still (SIGSTOP) until its time limit was long over, and was killed"
)


@dataclass(frozen=True, slots=True)
class Lost:
    """A task has no outcome, and why."""

    why: str


Came = tuple[int, Outcome | Lost]
"""The number of a task, and what came of it."""


class Executor(Protocol):
    """Carries out tasks somewhere, several at once."""

    @property
    def workers(self) -> int:
        """How many tasks it does at once."""

    @property
    def free(self) -> int:
        """How many more tasks it takes now."""

    def give(self, number: int, task: Task) -> None:
        """Take a task; ``number`` tells it from all others."""

    def forget(self, number: int) -> None:
        """A task is not needed any more; its outcome may still come."""

    def collect(self) -> list[Came]:
        """Wait until something came of some tasks, one at least; there must be some."""

    def close(self) -> None:
        """Interrupt what is being done, and leave nothing behind."""


# --- worker processes -------------------------------------------------------------------------


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    link: Connection
    number: int | None = None
    """The task that it does."""
    deadline: float | None = None
    """When it is killed, on the monotonic clock."""


class ProcessExecutor:
    """Worker processes, started as they are needed. Close it in the end.

    Args:
        processes: how many at most.
    """

    def __init__(self, processes: int) -> None:
        self.workers = processes
        self._workers: list[_Worker] = []
        self._context = multiprocessing.get_context("spawn")

    @property
    def free(self) -> int:
        """Workers without a task, also those that are still to be started."""
        return self.workers - sum(worker.number is not None for worker in self._workers)

    def give(self, number: int, task: Task) -> None:
        """Let an idle worker do it."""
        worker = next((one for one in self._workers if one.number is None), None)
        if worker is None:
            worker = self._start()
        worker.number = number
        if (seconds := task.kill_after_s) is not None:
            worker.deadline = _now() + seconds
        # A worker that died is noticed when its end of the pipe is read.
        with contextlib.suppress(BrokenPipeError):
            worker.link.send(task)

    def forget(self, number: int) -> None:
        """Let it come: blocks are short, and the end of a batch interrupts."""

    def collect(self) -> list[Came]:
        """Wait for workers; one that is gone, or hangs, is replaced with the next task."""
        now = _now()
        deadlines = [w.deadline for w in self._workers if w.deadline is not None]
        timeout = max(0.0, min(deadlines) - now) if deadlines else None
        links = [worker.link for worker in self._workers]
        # In pieces: time in which this process stood still is nobody's time limit.
        while True:
            ready = wait(links, CLOCK.wait_begins(timeout))
            CLOCK.wait_ended()
            if ready or (timeout is not None and _now() >= now + timeout):
                break
        came: list[Came] = []
        for worker in list(self._workers):
            if worker.link in ready:
                came += self._receive(worker)
            elif worker.deadline is not None and worker.deadline <= _now():
                why = STOPPED if _stands_still(worker) else HUNG
                worker.process.kill()
                came += self._lost(worker, why)
        return came

    def close(self) -> None:
        """Interrupt the workers, let them clean up, kill what is left after that."""
        for worker in self._workers:
            if worker.process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    if worker.number is not None:
                        os.kill(worker.process.pid, signal.SIGINT)
                    # Whoever stopped it: it cleans up only if it goes on.
                    os.kill(worker.process.pid, signal.SIGCONT)
            worker.link.close()
        try:
            until = _now() + CLEAN_UP_S
            for worker in self._workers:
                worker.process.join(max(0.0, until - _now()))
        finally:
            for worker in self._workers:
                worker.process.kill()
                worker.process.join()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=begin, args=(theirs, os.getpid()), name="wavecheck worker"
        )
        # Its first use unblocks SIGINT; so it must come before.
        resource_tracker.ensure_running()
        # Until it is ready, an interruption waits: it would end in the middle of an import. Here
        # it would lose sight of a worker that was just started.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            process.start()
            theirs.close()
            worker = _Worker(process, ours)
            self._workers.append(worker)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return worker

    def _receive(self, worker: _Worker) -> list[Came]:
        try:
            outcome: Outcome = worker.link.recv()
        except (EOFError, OSError):
            worker.process.join()
            return self._lost(worker, f"its worker process ended with code {_code(worker)}")
        assert worker.number is not None
        number, worker.number, worker.deadline = worker.number, None, None
        return [(number, outcome)]

    def _lost(self, worker: _Worker, why: str) -> list[Came]:
        self._workers.remove(worker)
        worker.link.close()
        worker.process.join()
        return [] if worker.number is None else [(worker.number, Lost(why))]


def _code(worker: _Worker) -> int | None:
    return worker.process.exitcode


def _stands_still(worker: _Worker) -> bool:
    return worker.process.pid is not None and is_stopped(worker.process.pid)


def _now() -> float:
    """Seconds in which we were awake: workers are killed in real time, and decide nothing."""
    return CLOCK.now()


# --- in the worker process --------------------------------------------------------------------


def serve(link: Connection) -> None:
    """Main loop of a worker process: do tasks until the pipe closes."""
    # A terminal's Ctrl-C goes to a whole process group; the parent passes it on, once.
    os.setpgid(0, 0)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        while True:
            link.send(carry_out(link.recv()))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        # What remains is Python's own shutdown.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
