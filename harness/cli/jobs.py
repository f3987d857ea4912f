"""Jobs, and how one is carried out: within its time limit, whatever it raises, wherever it runs."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FrameType

from harness.awake import STOPS
from harness.division import Block, Outcome, Piece, play_piece
from harness.interruption import heard
from harness.reports.visible import printable
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario
from harness.verdict import ERROR, UNSTABLE, VIOLATED

CLEAN_UP_S = 10.0
"""Seconds that an interrupted run gets to release everything before it is killed."""
LIMIT_MIN_S = 0.05
"""A piece of a campaign whose time is up gets this much to say so."""

TICKS = 20
"""In so many parts a time limit passes; standing still costs a run one of them at most."""
STOPPED = "the process that played it was stopped (SIGSTOP, SIGTSTP) meanwhile, and continued"
DOUBTFUL = "what it saw is in {}, which may show nothing but that"

Work = Callable[[LoadedScenario, RunOptions], ScenarioResult]
"""Runs one scenario; importable by name, so that a worker process finds it."""


@dataclass(frozen=True, slots=True)
class Job:
    """One scenario with the options of its run.

    ``plays``: how often the work may play it; if more than once, the work itself holds each
    play to the time limit. ``divisible``: whether its schedules may be played in pieces by
    several workers; the work is ``run_scenario`` then.
    """

    loaded: LoadedScenario
    options: RunOptions
    plays: int = 1
    divisible: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """What one worker does in one go.

    Attributes:
        work: for a whole job.
        piece: of a job that is divided, or ``None``: the whole job.
        seconds_left: until the time limit of a divided job; ``None``: it has none.
    """

    job: Job
    work: Work
    piece: Piece | None = None
    seconds_left: float | None = None

    @property
    def limit_s(self) -> float | None:
        """Seconds after which it is interrupted."""
        if self.piece is not None:
            return None if self.seconds_left is None else max(LIMIT_MIN_S, self.seconds_left)
        return self.job.options.timeout_s if self.job.plays == 1 else None

    @property
    def kill_after_s(self) -> float | None:
        """Seconds after which whoever does it must be hung."""
        limit = self.job.options.timeout_s if self.piece is None else self.limit_s
        return None if limit is None else limit * self.job.plays + 2 * CLEAN_UP_S

    @property
    def schedules(self) -> int:
        """How many schedules of a divided job it stands for."""
        return len(self.piece.strategies) if isinstance(self.piece, Block) else 0


def carry_out(task: Task) -> Outcome:
    """Do a task within its time limit; what raises becomes a result with status ``error``.

    Raises:
        KeyboardInterrupt: interrupted by a person.
    """
    STOPS.listen()
    began = STOPS.mark()
    outcome = _carried_out(task)
    if STOPS.disturbed(began) and isinstance(outcome, ScenarioResult):
        return _doubted(task, outcome)
    return outcome


def _doubted(task: Task, result: ScenarioResult) -> ScenarioResult:
    """What a result is worth if this process was stopped meanwhile.

    What runs in simulation, where time is no time, is as good as ever; on real sockets others went
    on while we did not, and gave up on us, perhaps. Its failure file stays, and is named: it may
    help, and a run before may have left one of that name.
    """
    if result.status == ERROR:
        return replace(result, error=f"{result.error}\n{STOPPED}; it is to be played again")
    if task.job.options.target == "sim" or result.status not in {VIOLATED, UNSTABLE}:
        return result
    told = f"{STOPPED}; so a violation that was seen does not count, and it is to be played again"
    if result.failure_file is not None:
        told = f"{told}; {DOUBTFUL.format(printable(result.failure_file))}"
    return replace(failed(task.job, told), profile=result.profile, duration_s=result.duration_s)


def _carried_out(task: Task) -> Outcome:
    loaded, options = task.job.loaded, task.job.options
    with _time_limit(task.limit_s) as limit:
        try:
            if task.piece is not None:
                return play_piece(loaded, options, task.piece)
            return task.work(loaded, options)
        except KeyboardInterrupt:
            if not limit.expired:
                raise
            return failed(task.job, f"stopped after the time limit of {options.timeout_s:g} s")
        except Exception as error:  # noqa: BLE001 - one broken run must not end the others
            return failed(task.job, describe_error(error))


def execute(job: Job, work: Work) -> ScenarioResult:
    """Run one whole job within its time limit; what raises becomes a result with status ``error``.

    Raises:
        KeyboardInterrupt: interrupted by a person.
    """
    outcome = carry_out(Task(job, work))
    assert isinstance(outcome, ScenarioResult)
    return outcome


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
    """Whether the time limit of a run has passed.

    It passes in ``TICKS`` parts. A process that stands still gets one of their signals, however
    long that takes; so its time passes only while it runs.
    """

    def __init__(self) -> None:
        self.expired = False
        self._left = TICKS

    def ring(self, _signum: int, _frame: FrameType | None) -> None:
        """In the end interrupt the run as a person would: its own handler, if any, cleans up."""
        self._left -= 1
        if self._left > 0:
            return
        if not self.expired:
            self.expired = True
            signal.setitimer(signal.ITIMER_REAL, CLEAN_UP_S, CLEAN_UP_S)
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
    signal.setitimer(signal.ITIMER_REAL, seconds / TICKS, seconds / TICKS)
    try:
        with interruptible():
            yield limit
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise ``KeyboardInterrupt`` inside, then restore the handlers.

    A real world replaces the handlers while it runs, so this goes round the whole command.
    """
    with heard(signal.default_int_handler):
        yield
