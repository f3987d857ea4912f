"""What a strategy is: a policy that answers "which of these n?" for one schedule."""

from __future__ import annotations

from typing import ClassVar

from harness.sim.choosing import Labels


class Strategy:
    """Base of all strategies; one object decides one schedule.

    Attributes:
        name: how it is chosen on the command line.
        title: one line on what it explores.
        wants_labels: whether ``choose`` needs the options' names (slow).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    wants_labels: ClassVar[bool] = False

    def __init__(self, seed: int = 0, schedule: int = 0) -> None:
        self.seed = seed
        self.schedule = schedule

    def begin(self) -> None:
        """Forget what was decided: the next choice is the first of a run."""

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return an index below ``n`` (at least 2); 0 is asyncio's own order."""
        raise NotImplementedError
