"""The end of a frontend's process that nobody asked for: named, with its last words.

What follows from such an end (calls that fail, engines without a frontend, a fence that cannot
be) is told too, but behind it. A scenario that is about the end keeps its meaning: one in which
startup fails, which ends the frontend itself, or which expects an exit code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from client.aio import DeadlineExceeded, cancel_and_wait, resolve
from harness.exit_words import ended
from harness.expectations import VIOLATED, Outcome
from harness.results import RUNS_ON
from harness.scenario.model import Scenario, Step
from harness.targets.base import TargetError
from harness.trace.events import ConnectEnded, LogLine, ProcessExited, Record, StepBegan
from harness.trace.recorder import Recorder

T = TypeVar("T")

_LINES_SHOWN = 8
_LINE_MAX = 200
_ENDING = frozenset({"TERM", "INT", "HUP", "KILL", "QUIT", "ABRT"})
_SHUTDOWN = "shutdown"
"""Last part of the name of a method or a route that ends a frontend."""


def ends_frontend(step: Step) -> bool:
    """Whether a step lets the frontend end."""
    if step.signal is not None:
        return step.signal in _ENDING
    if step.grpc is not None:
        return step.grpc.method.lower().endswith(_SHUTDOWN)
    if step.http is not None:
        return step.http.path.partition("?")[0].lower().endswith(_SHUTDOWN)
    return step.shutdown is not None


def is_about_an_end(scenario: Scenario) -> bool:
    """Whether the frontend may end by itself: it fails to start, or an exit code is expected."""
    if scenario.connect_fails:
        return True
    expects = any(
        step.expect is not None and step.expect.exit_code is not None for step in scenario.steps
    )
    return expects and not any(ends_frontend(step) for step in scenario.steps)


class EndWatch:
    """Follows a run of a frontend that is a process, and ends what waits for a dead one.

    Attributes:
        seen: the record of an end that nobody asked for, ``None`` before it.
    """

    def __init__(self, scenario: Scenario, trace: Recorder) -> None:
        self._steps = scenario.steps
        self._expected = is_about_an_end(scenario)
        self._lines: deque[Record] = deque(maxlen=_LINES_SHOWN)
        self._wake: Callable[[], None] = _nobody
        self._serves = False
        self.seen: Record | None = None
        trace.subscribe(self._look)

    def _look(self, record: Record) -> None:
        match record.event:
            case StepBegan(index=index):
                self._expected = self._expected or ends_frontend(self._steps[index])
            case ConnectEnded(error=None):
                self._serves = True
            case LogLine() if self.seen is None:
                self._lines.append(record)
            case ProcessExited() if self._serves and not self._expected:
                self.seen = self.seen or record
                self._wake()
            case _:
                pass

    async def within(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Await ``work`` for at most ``seconds``, and give it up when the frontend ends.

        With as many turns of the loop as ``with_deadline``: a caller who leaves at once must not
        leave later than it would without us.

        Raises:
            DeadlineExceeded: it took too long.
            TargetError: the frontend ended.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name="step")
        over: asyncio.Future[None] = loop.create_future()

        def wake(_task: object = None) -> None:
            resolve(over)

        timer = loop.call_later(seconds, wake)
        task.add_done_callback(wake)
        self._wake = wake
        if self.seen is not None:
            wake()
        try:
            await over
        except asyncio.CancelledError:
            await cancel_and_wait([task])
            raise
        finally:
            timer.cancel()
            task.remove_done_callback(wake)
            self._wake = _nobody
        if not task.done():
            await cancel_and_wait([task])
            if task.cancelled() or task.exception() is not None:
                if self.seen is None:
                    raise DeadlineExceeded
                msg = "the frontend ended"
                raise TargetError(msg)
        return task.result()

    def outcome(self, where: str) -> Outcome:
        """What an end that was seen is for the scenario.

        Args:
            where: how far the scenario was.
        """
        assert self.seen is not None
        assert isinstance(self.seen.event, ProcessExited)
        texts = [_text(record.event) for record in self._lines if isinstance(record.event, LogLine)]
        last = "its last log lines:" if texts else "it logged nothing"
        seen = "\n".join((f"it {ended(self.seen.event.code)} {where}; {last}", *texts))
        witness = (*(record.seq for record in self._lines), self.seen.seq)
        return Outcome(VIOLATED, RUNS_ON, seen, witness)


def _nobody() -> None:
    """Nobody waits."""


def _text(line: LogLine) -> str:
    return f"{line.level} {line.text}".strip()[:_LINE_MAX]
