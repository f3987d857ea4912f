"""Probabilistic concurrency testing: random priorities, lowered at a few random places.

Source: Burckhardt, Kothari, Musuvathi and Nagarakatte, "A randomized scheduler with probabilistic
guarantees of finding bugs", ASPLOS 2010: a fault that needs ``d`` ordering constraints among
``n`` tasks and ``k`` steps is met with a probability of at least 1 / (n * k ** (d - 1)).
"""

from __future__ import annotations

from harness.sim.choosing import Labels, Ready
from harness.sim.handles import Entry, task_of
from harness.strategies.base import Limits, Search, Seen, Strategy
from harness.strategies.fifo import FifoStrategy
from harness.strategies.shuffle import Stream

PATIENCE = 20
"""Once a run is so many times as long as the first one, or as ``SHORT``, it goes in turn."""
SHORT = 1_000
"""Choices of a run that is too short to be measured by."""


class PctStrategy(Strategy):
    """The task or pipe of the highest priority runs; at ``depth - 1`` places it is lowered.

    Strict priorities starve a task below one that never waits, such as a caller who sends requests
    until that task is done. A run that is far longer than it should be goes on in turn.

    Args:
        horizon: choices among which the places are drawn: as many as an earlier run had.
        depth: ordering constraints that a fault may need.
    """

    name = "pct"
    title = "probabilistic concurrency testing: random priorities, depth - 1 change points"

    def __init__(
        self,
        seed: int = 0,
        schedule: int = 0,
        *,
        horizon: int = 1,
        depth: int = 3,
    ) -> None:
        super().__init__(seed, schedule)
        self._horizon = max(1, horizon)
        self._depth = depth
        self._patience = PATIENCE * max(horizon, SHORT)
        self._ready: Ready = []
        self.begin()

    def begin(self) -> None:
        """Draw everything again."""
        self._stream = Stream(self.seed, self.schedule)
        # Unsorted: a later place may put its task above or below that of an earlier one. Sorted
        # places would lose half of the orders of three.
        drawn = [self._stream.below(self._horizon) for _ in range(self._depth - 1)]
        self._changes = {place: low for low, place in enumerate(drawn)}
        self._priority: dict[object, int] = {}
        self._number = 0

    def end(self) -> None:
        """Forget whose the priorities were."""
        self._priority.clear()

    def attach(self, ready: Ready) -> None:
        """Priorities belong to what stands on the list."""
        self._ready = ready

    def choose(self, n: int, labels: Labels | None = None) -> int:  # noqa: ARG002
        """Return the entry of the highest priority."""
        ready = self._ready
        best = max(range(n), key=lambda index: self._of(ready[index]))
        low = self._changes.get(self._number)
        self._number += 1
        if low is not None:
            self._priority[_key(ready[best])] = low
            best = max(range(n), key=lambda index: self._of(ready[index]))
        if self._number > self._patience:
            # The lowest of all so far, below those of the change points.
            self._priority[_key(ready[best])] = self._patience - self._number
        return best

    def _of(self, entry: Entry) -> int:
        key = _key(entry)
        found = self._priority.get(key)
        if found is None:
            # Above all that a change point gives.
            found = self._priority[key] = self._depth + self._stream.below(1 << 32)
        return found


def _key(entry: Entry) -> object:
    """Whose priority counts: the task's, the pipe's, or that of a callback alone."""
    return task_of(entry) or entry


class PctSearch(Search):
    """FIFO once, to measure how long a run is, then PCT with the depth of the limits."""

    name = "pct"
    title = PctStrategy.title
    divisible = True

    def __init__(self, seed: int = 0, limits: Limits | None = None) -> None:
        super().__init__(seed, limits)
        self._made = 0
        self._horizon: int | None = None

    def next(self) -> Strategy:
        """Return the strategy of the next number."""
        self._made += 1
        if self._made == 1:
            return FifoStrategy()
        return PctStrategy(
            self.seed, self._made - 1, horizon=self._horizon or 0, depth=self.limits.depth
        )

    def decided(self, unseen: int) -> bool:
        """Once the first run has been measured."""
        return unseen == 0 or self._horizon is not None

    def saw(self, seen: Seen) -> None:
        """Keep how long the first run was: later ones must not depend on who came before."""
        if self._horizon is None:
            self._horizon = seen.asked
