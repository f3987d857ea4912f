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


class Due(simpy.Event):
    """A timer: an event with one callback that needs no trigger but its time.

    A ``simpy.Timeout`` in half the time: a run makes one timer for each step and deadline.
    """

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

    @property
    def now_us(self) -> int:
        """Microseconds from 0."""
        # Only integers are ever added to it.
        return self._now  # type: ignore[return-value]

    def after(self, delay_us: int, act: Callable[[simpy.Event], None]) -> simpy.Event:
        """Call ``act`` once ``delay_us`` (>= 0) have passed; ties go by order of this call."""
        timer = Due(self, act)
        heapq.heappush(self._queue, (self._now + delay_us, NORMAL, next(self._eid), timer))
        self.live += 1
        return timer

    def discard(self, timer: simpy.Event) -> None:
        """Take back a timer that did not fire yet."""
        timer.callbacks.clear()
        self.live -= 1
        self._dead += 1
        if self._dead > _DEAD_MIN and self._dead * 2 > len(self._queue):
            # In place: SimPy and we share this list. Order is by (time, priority, number).
            self._queue[:] = [item for item in self._queue if item[3].callbacks]
            heapq.heapify(self._queue)
            self._dead = 0

    def forget(self) -> None:
        """Drop all timers: the run is over, and they refer to this clock and to their handles."""
        for item in self._queue:
            item[3].callbacks.clear()
        self._queue.clear()
        self.live = self._dead = 0

    def advance(self) -> None:
        """Step to the next time at which a live timer is due, and fire all that are due then.

        Call only while ``live`` > 0. Dead timers on the way move the clock unseen.
        """
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
