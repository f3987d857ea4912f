"""Virtual time: a ``simpy.Environment`` that counts integer microseconds.

SimPy owns the clock and the order of what falls due; the ready list is the loop's. A timer is
one ``simpy`` event with one callback. SimPy cannot take an event back, so a cancelled timer
loses its callback and stays in the queue; ``live`` tells whether any timer can still act, and
the queue is rebuilt once most of it is dead.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import simpy
from simpy.events import NORMAL

MICROSECONDS = 1_000_000
"""Ticks of the clock in one second."""
_DEAD_MIN = 256
"""Dead events kept at most before the queue is looked at; it bounds memory, not behaviour."""


def to_us(seconds: float) -> int:
    """Convert seconds to the clock's integers, to the nearest microsecond."""
    return round(seconds * MICROSECONDS)


class Timer:
    """One call at a time to come.

    Attributes:
        act: what is called; ``None`` once it was taken back, or handed to its event.
        due: its event in SimPy's queue; ``None`` as long as it is in none.
    """

    __slots__ = ("act", "due", "due_us")

    def __init__(self, act: Callable[[simpy.Event], None], due_us: int) -> None:
        self.act: Callable[[simpy.Event], None] | None = act
        self.due_us = due_us
        self.due: Due | None = None


class Due(simpy.Event):
    """An event with one callback that needs no trigger but its time: half a ``simpy.Timeout``."""

    def __init__(self, clock: Clock, act: Callable[[simpy.Event], None]) -> None:
        # The base class is left out: it makes a list, and SimPy's own timers do without it too.
        self.env = clock
        self.callbacks = [act]
        self._value = None
        self._ok = True


class Clock(simpy.Environment):
    """The clock and timers of one run; ``now`` is in microseconds from 0."""

    def __init__(self) -> None:
        super().__init__(0)
        self.live = 0
        self._dead = 0
        self._stale = 0
        self._fresh: list[Timer] = []
        """Timers that time has not moved since: most deadlines are taken back before it does, and
        never get to SimPy."""

    @property
    def now_us(self) -> int:
        """Microseconds from 0."""
        # Only integers are ever added to it.
        return self._now  # type: ignore[return-value]

    def after(self, delay_us: int, act: Callable[[simpy.Event], None]) -> Timer:
        """Call ``act`` once ``delay_us`` (>= 0) have passed; ties go by order of this call."""
        timer = Timer(act, self.now_us + delay_us)
        self._fresh.append(timer)
        self.live += 1
        return timer

    def _enqueue(self) -> None:
        """Hand SimPy the fresh timers that are still wanted, in the order of their making."""
        for timer in self._fresh:
            if timer.act is not None:
                timer.due = Due(self, timer.act)
                timer.act = None
                heapq.heappush(self._queue, (timer.due_us, NORMAL, next(self._eid), timer.due))
        self._fresh.clear()
        self._stale = 0

    def discard(self, timer: Timer) -> None:
        """Take back a timer that did not fire yet."""
        timer.act = None
        self.live -= 1
        if timer.due is None:
            self._stale += 1
            if self._stale > _DEAD_MIN and self._stale * 2 > len(self._fresh):
                self._fresh = [fresh for fresh in self._fresh if fresh.act is not None]
                self._stale = 0
            return
        timer.due.callbacks.clear()
        self._dead += 1
        if self._dead > _DEAD_MIN and self._dead * 2 > len(self._queue):
            # In place: SimPy and we share this list. Order is by (time, priority, number).
            self._queue[:] = [item for item in self._queue if item[3].callbacks]
            heapq.heapify(self._queue)
            self._dead = 0

    def forget(self) -> None:
        """Drop all timers: the run is over, and they refer to this clock and to their handles."""
        for timer in self._fresh:
            timer.act = None
        self._fresh.clear()
        for item in self._queue:
            item[3].callbacks.clear()
        self._queue.clear()
        self.live = self._dead = 0

    def advance(self) -> None:
        """Step to the next time at which a live timer is due, and fire all that are due then.

        Call only while ``live`` > 0. Dead timers on the way move the clock unseen.
        """
        self._enqueue()
        live = self.live
        while self.live == live:
            self._fire_next()
        now = self.now
        while self.peek() == now:
            self._fire_next()

    def _fire_next(self) -> None:
        if self._queue[0][3].callbacks:
            self.live -= 1
        else:
            self._dead -= 1
        self.step()
