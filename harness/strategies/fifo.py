"""Asyncio's own order."""

from __future__ import annotations

from harness.sim.choosing import Labels
from harness.strategies.base import Strategy


class FifoStrategy(Strategy):
    """Always the entry that became ready first."""

    name = "fifo"
    title = "first in, first out: the order of asyncio itself"

    def choose(self, n: int, labels: Labels | None = None) -> int:  # noqa: ARG002
        """Return 0."""
        return 0
