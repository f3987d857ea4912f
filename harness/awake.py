"""Time in which this process could run: what a limit of time may count.

A process that is stopped (SIGSTOP, Ctrl-Z), or whose machine or container is, finds all its limits
passed when it goes on: the clock of the system went on meanwhile. A step would then "still wait
after 15 s" that never had them. So whoever waits here waits in short pieces; a piece that took
much longer than it was asked for, and cost no CPU, was no time of ours. Between waits the same holds
of what nobody asked for: a callback, or a write to a pipe that nobody reads, that takes longer than
``PATIENCE_S`` without CPU is no time either. Nothing else of ours could go on in it, and whether it
was blocked or stopped cannot be told apart; so a limit is never too short for it.

Whether it was stopped is also noted by itself, from the SIGCONT that each process gets when it goes
on: on a frontend that was not stopped with us the clock does tell.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any

PIECE_S = 0.5
"""The longest wait in one go."""
PATIENCE_S = 1.0
"""How much later than asked for a wait may end on a busy machine, and still count as time."""


class AwakeClock:
    """Seconds on a monotonic clock, but for those in which this process stood still.

    Attributes:
        stood_still_s: how long it did, as far as anybody waited or asked for the time.
    """

    def __init__(self) -> None:
        self.stood_still_s = 0.0
        self._asked = 0.0
        self._at, self._used = _real(), _used()

    def now(self) -> float:
        """Seconds since some moment; never fewer than before.

        A stop is noticed here too: what is timed right behind it must not count it.
        """
        self._look()
        return self._at - self.stood_still_s

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
            STOPS.lost_s += over
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
        return self._awake.now()


# --- what SIGCONT tells -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mark:
    """What ``Stops`` knew at some moment."""

    count: int
    lost_s: float
    asked: int


class Stops:
    """How often this process was stopped and went on.

    Attributes:
        count: so often, since ``listen`` was called first.
        lost_s: seconds that clocks of this process took for standing still.
    """

    def __init__(self) -> None:
        self.count = 0
        self.lost_s = 0.0
        self._asked = 0

    def listen(self) -> None:
        """Count from now on; in a thread other than the main one nothing can be heard."""
        number = getattr(signal, "SIGCONT", None)
        if number is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(number) != self._went_on:
            signal.signal(number, self._went_on)

    def mark(self) -> Mark:
        """Now, for ``disturbed``."""
        return Mark(self.count, self.lost_s, self._asked)

    def disturbed(self, since: Mark) -> bool:
        """Whether a stop since then cost time that matters; each stop is told to the innermost.

        A SIGCONT alone proves no stop: anybody may send one. A stop shorter than ``PATIENCE_S`` is
        no more than a busy machine does to us. And whoever asked about parts of this time has
        judged them one by one; between them nothing was at stake.
        """
        parts, self._asked = self._asked != since.asked, self._asked + 1
        return not parts and self.count != since.count and self.lost_s > since.lost_s

    def _went_on(self, _signum: int, _frame: FrameType | None) -> None:
        self.count += 1


STOPS = Stops()
"""Of this process."""
CLOCK = AwakeClock()
"""Of the one who waits for the workers of this process."""
