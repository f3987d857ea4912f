"""What a strategy is, and what a search is: who decides one schedule, and who all of a campaign."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.sim.choosing import Labels, Ready


class Strategy:
    """A policy that answers "which of these n?" for one schedule.

    Attributes:
        name: how it is called in results and on the command line.
        title: one line on what it explores.
        wants_labels: whether ``choose`` needs the options' names (slow).
        from_the_start: whether it is asked during the start-up too, before the first step.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    wants_labels: ClassVar[bool] = False
    from_the_start: ClassVar[bool] = False
    places: Sequence[str] = ()
    """Names of what would have run each time it was asked, where it takes note of them."""

    def __init__(self, seed: int = 0, schedule: int = 0) -> None:
        self.seed = seed
        self.schedule = schedule

    def begin(self) -> None:
        """Forget what was decided: the next choice is the first of a run."""

    def end(self) -> None:
        """Let go of tasks and messages of the run: nothing more is asked in it."""

    def attach(self, ready: Ready) -> None:
        """Take note of the loop's ready list, of which ``choose`` names an index."""

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return an index below ``n`` (at least 2); 0 is asyncio's own order."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a search may go.

    Attributes:
        schedules: how many schedules the campaign has; a search may share them out.
        stalls: how many tasks or messages are left out in one schedule at most.
        depth: ordering constraints that a fault may need (PCT's d).
    """

    schedules: int = 1
    stalls: int = 2
    depth: int = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """What one schedule taught.

    Attributes:
        asked: how often its strategy was asked.
        history: digest of what each part of the system went through, in its own order.
        places: those of the strategy.
    """

    asked: int
    history: int = 0
    places: tuple[str, ...] = ()


def schedules(number: int) -> str:
    """Say how many: ``41,208 schedules``."""
    return f"{number:,} schedule{'' if number == 1 else 's'}"


class Search(abc.ABC):
    """Decides which schedules a campaign plays, one after the other.

    Attributes:
        name, title: as those of a strategy.
        finished: whether everything that it explores has been explored.
        wants_history: whether ``Seen.history`` has to be made (slow).
        divisible: whether its strategies may be played elsewhere, several at once: they travel as
            they are, and ``decided`` says how far ahead ``next`` may be asked.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    wants_history: ClassVar[bool] = False
    divisible: ClassVar[bool] = False

    def __init__(self, seed: int = 0, limits: Limits | None = None) -> None:
        self.seed = seed
        self.limits = Limits() if limits is None else limits
        self.finished = False

    def told(self, *, held: bool) -> str:
        """How far it got, for people; ``""`` if there is nothing to tell.

        ``held``: whether nothing was violated.
        """
        del held
        return ""

    @abc.abstractmethod
    def next(self) -> Strategy | None:
        """Return who decides the next schedule, or ``None`` if nothing is left to explore."""

    def decided(self, unseen: int) -> bool:
        """Whether ``next`` says now what it would say once all schedules have been seen.

        ``unseen``: how many of those that were decided have not been seen yet; they are the last.
        """
        return unseen == 0

    def saw(self, seen: Seen) -> None:
        """Take note of a schedule that was decided: of the first that was not seen yet."""
        del seen


class Redundant(Exception):  # noqa: N818  (no fault of anybody)
    """A strategy leaves its schedule: another one stands for it."""


class Sampling(Search):
    """Schedules that know nothing of each other: one strategy, made anew for each."""

    name = "sampling"
    title = "independent schedules of one strategy"
    divisible = True

    def __init__(self, kind: type[Strategy], seed: int = 0, limits: Limits | None = None) -> None:
        super().__init__(seed, limits)
        self._kind = kind
        self._made = 0

    def next(self) -> Strategy:
        """Return the strategy of the next number."""
        self._made += 1
        return self._kind(self.seed, self._made - 1)

    def decided(self, unseen: int) -> bool:  # noqa: ARG002
        """Always: seed and number decide."""
        return True
