"""Time in which this process could run: what a limit of time may count.

A process that is stopped (SIGSTOP, Ctrl-Z), or whose machine or container is, finds all its limits
passed when it goes on: the clock of the system went on meanwhile. A step would then "still wait
after 15 s" that never had them. So whoever waits here waits in short pieces; a piece that took
much longer than it was asked for, and cost no CPU, was no time of ours.

Whether it was stopped is also noted by itself, from the SIGCONT that each process gets when it goes
on: on a frontend that was not stopped with us the clock does tell.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import threading
import time
from types import FrameType
from typing import Any

PIECE_S = 0.5
"""The longest wait in one go."""
PATIENCE_S = 1.0
"""How much later than asked for a wait may end on a busy machine, and still count as time."""


class AwakeClock:
    """Seconds on a monotonic clock, but for those in which this process stood still.

    Attributes:
        stood_still_s: how long it did, as far as anybody waited.
    """

    def __init__(self) -> None:
        self.stood_still_s = 0.0
        self._asked = 0.0
        self._at, self._used = _real(), _used()

    def now(self) -> float:
        """Seconds since some moment."""
        return _real() - self.stood_still_s

    def wait_begins(self, seconds: float | None) -> float:
        """Somebody is to wait, at most so long (``None``: for ever); how long in one go."""
        self._look()
        self._asked = PIECE_S if seconds is None else max(0.0, min(seconds, PIECE_S))
        return self._asked

    def wait_ended(self) -> None:
        """The wait that began last is over."""
        self._look()

    def _look(self) -> None:
        """Take what is more than was asked for, and more than was worked, as standing still."""
        at, used = _real(), _used()
        over = (at - self._at) - self._asked - (used - self._used)
        if over > PATIENCE_S:
            self.stood_still_s += over
        self._at, self._used, self._asked = at, used, 0.0


def _real() -> float:
    return time.monotonic()  # noqa: TID251 - real processes are waited for


def _used() -> float:
    return time.process_time()


class _Selector(selectors.DefaultSelector):
    """Waits for sockets in short pieces; who asked gets nothing and asks again."""

    def __init__(self, clock: AwakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        """As the base, but for at most ``PIECE_S``."""
        piece = self._clock.wait_begins(timeout)
        try:
            return super().select(piece)
        finally:
            self._clock.wait_ended()


class AwakeLoop(asyncio.SelectorEventLoop):
    """A stock loop whose timers stand still while this process does."""

    def __init__(self) -> None:
        self._awake = AwakeClock()
        super().__init__(_Selector(self._awake))

    def time(self) -> float:
        """Seconds of the loop's clock."""
        return super().time() - self._awake.stood_still_s


# --- what SIGCONT tells -----------------------------------------------------------------------


class Stops:
    """How often this process was stopped and went on.

    Attributes:
        count: so often, since ``listen`` was called first.
    """

    def __init__(self) -> None:
        self.count = 0

    def listen(self) -> None:
        """Count from now on; in a thread other than the main one nothing can be heard."""
        number = getattr(signal, "SIGCONT", None)
        if number is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(number) != self._went_on:
            signal.signal(number, self._went_on)

    def _went_on(self, _signum: int, _frame: FrameType | None) -> None:
        self.count += 1


STOPS = Stops()
"""Of this process."""
CLOCK = AwakeClock()
"""Of the one who waits for the workers of this process."""
