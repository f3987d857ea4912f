"""The default of a campaign: what finds most faults soonest, then what finds the rest."""

from __future__ import annotations

from harness.strategies.base import Limits, Search, Seen, Strategy
from harness.strategies.pct import PctStrategy
from harness.strategies.random_walk import RandomStrategy
from harness.strategies.stall import StallSearch

PORTFOLIO = ("random", 1, 2, 3)
"""What takes turns once stalls are through: the random walk, and PCT of these depths."""


class AutoSearch(Search):
    """FIFO, each single stall, pairs of stalls, then a random walk and PCT in turn.

    Pairs are many: they get half of the schedules that single stalls have left over, the
    portfolio the other half. A campaign without an end in sight plays all pairs.
    """

    name = "auto"
    title = "fifo, one stall, two stalls, then random walks and pct of depth 1 to 3 in turn"
    divisible = True

    def __init__(self, seed: int = 0, limits: Limits | None = None) -> None:
        super().__init__(seed, limits)
        self._stalls: StallSearch | None = StallSearch(
            seed, Limits(stalls=2), schedules=self.limits.schedules
        )
        self._made = 0
        self._singles = 0
        self._horizon = 0

    def next(self) -> Strategy:
        """Return the next schedule's strategy; there is always one."""
        self._made += 1
        if self._stalls is not None and self._more_stalls(self._stalls, self._made):
            strategy = self._stalls.next()
            if strategy is not None:
                if self._stalls.level < 2:
                    self._singles = self._made
                return strategy
        self._stalls = None
        kind = PORTFOLIO[self._made % len(PORTFOLIO)]
        if isinstance(kind, str):
            return RandomStrategy(self.seed, self._made)
        return PctStrategy(self.seed, self._made, horizon=self._horizon, depth=kind)

    def _more_stalls(self, stalls: StallSearch, number: int) -> bool:
        """Whether schedule ``number``, from 1, is still one of the stalls, if one is left."""
        if stalls.level < 2:
            return True
        return number - self._singles <= (self.limits.schedules - self._singles) // 2

    def decided(self, unseen: int) -> bool:
        """As for stalls; the first of the portfolio must know how long all before it were."""
        if self._stalls is None:
            return True
        if self._more_stalls(self._stalls, self._made + 1):
            return self._stalls.decided(unseen)
        return unseen == 0

    def saw(self, seen: Seen) -> None:
        """Stalls and change points are placed by what was seen."""
        if self._stalls is not None:
            self._horizon = max(self._horizon, seen.asked)
            self._stalls.saw(seen)
