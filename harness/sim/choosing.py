"""The seam between the loop and whoever decides what runs next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from harness.sim.handles import Entry

Labels = Callable[[], Sequence[str]]
"""Names of the options of one choice, made only when called; valid during the choice."""
Ready = list[Entry]
"""The loop's own list, in first-in-first-out order. A chooser may look, and wrap an entry in one
that runs it and is equal to it; it must not add, remove or move anything."""


class Chooser(Protocol):
    """Answers "which of these n?". Asked only where n >= 2."""

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return an index below ``n``; 0 is what asyncio would run next.

        Args:
            n: number of ready entries, at least 2, in first-in-first-out order.
            labels: their names, if the loop was asked to record labels.
        """


class Attached(Chooser, Protocol):
    """A chooser that looks at the options themselves."""

    def attach(self, ready: Ready) -> None:
        """Take note of the list of ready entries; called once, before the first choice."""
