"""How much may be tried: a number of runs, and a time."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


def real_clock() -> float:
    """Seconds; a budget is spent in real time, and no run reads it."""
    return time.monotonic()  # noqa: TID251 - see above


class Budget:
    """Counts runs and looks at the clock.

    Args:
        runs: how many at most; they alone decide as long as there is time, so that the outcome is
            the same on every machine.
        seconds: how long at most; ``None``: no limit.

    Attributes:
        used: runs so far.
        watch: told ``used`` after each run.
    """

    def __init__(
        self, runs: int, seconds: float | None = None, *, clock: Clock = real_clock
    ) -> None:
        self._runs = runs
        self._clock = clock
        self._until = None if seconds is None else clock() + seconds
        self.used = 0
        self.watch: Callable[[int], None] = lambda _used: None

    @property
    def spent(self) -> bool:
        """Whether nothing more may be tried."""
        return self.used >= self._runs or (self._until is not None and self._clock() >= self._until)

    @property
    def left(self) -> int:
        """Runs that are left."""
        return max(0, self._runs - self.used)

    def take(self) -> None:
        """Count one run."""
        self.used += 1
        self.watch(self.used)

    def share(self, runs: int) -> Budget:
        """A part of it: at most so many runs, which count here too."""
        part = Budget(min(runs, self.left), clock=self._clock)
        part._until = self._until
        part.watch = lambda _used: self.take()
        return part
