"""Looks for a failure near its old tape, once the code has changed and the tape does not fit.

What is near: FIFO order; the tape followed by label; its stalls as they were, and moved to where
the same would be left out, or something close by; every single stall, the nearest to an old place
first; and pairs of stalls of which both are near old places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.attempt import Attempt
from harness.failure import FailureFile
from harness.replay import OpenFailure, ReplayKind, replayed
from harness.shrink.budget import Budget
from harness.shrink.filing import filed
from harness.shrink.following import following
from harness.shrink.old_tape import Following, left_behind
from harness.shrink.promise import Promise
from harness.shrink.schedule import RUNS, Schedule, reduce_schedule
from harness.shrink.stage import UNPLAYABLE, Stage, StalledRun, Stalls
from harness.strategies.window import PLUMBING
from harness.tape import Tape
from harness.verdict import HELD

STALLS_MAX = 3
"""A schedule of more stalls is followed by its labels; its places are tried one and two at once."""
RADIUS = 6
"""How far from an old place both stalls of a pair may be."""


@dataclass(frozen=True, slots=True)
class Hunted:
    """What came of a search.

    Attributes:
        order: a schedule that breaks the promise; ``None`` if there was none.
        failure: of that schedule.
        tried: schedules that were played.
        unplayable: how many of them could not be judged.
        exercised: whether what the promise guards happened in any of them.
        finished: whether everything near was tried.
    """

    order: Schedule | None
    failure: FailureFile | None
    tried: int
    unplayable: int
    exercised: bool
    finished: bool


def search_near(opened: OpenFailure, budget: Budget) -> Hunted:
    """Look for the failure near its old tape.

    Raises:
        TargetError: the target cannot be had.
    """
    return _Hunt(opened, budget).run()


class _Hunt:
    def __init__(self, opened: OpenFailure, budget: Budget) -> None:
        assert opened.tape is not None, "where nobody chooses there is no tape"
        self._opened = opened
        self._tape: Tape = opened.tape
        self._budget = budget
        self._promise = Promise(opened.failure.violated)
        self._stage = Stage(opened.spec, opened.target)
        self._left = left_behind(opened.tape)
        self._unplayable = 0
        self._exercised = False
        self._seen: set[Stalls] = set()

    def run(self) -> Hunted:
        for attempt in self._attempts():
            if self._promise.broken_in(attempt) is not None:
                return self._found(attempt)
        return self._hunted(None, None, finished=not self._budget.spent)

    def _hunted(
        self, order: Schedule | None, failure: FailureFile | None, *, finished: bool
    ) -> Hunted:
        return Hunted(
            order, failure, self._budget.used, self._unplayable, self._exercised, finished
        )

    def _found(self, attempt: Attempt) -> Hunted:
        order = reduce_schedule(self._stage, self._promise, attempt, Budget(RUNS))
        assert order.attempt.tape is not None
        failure = filed(
            self._opened.failure,
            self._promise,
            order.attempt,
            tape=self._stage.labelled(order.attempt.tape),
            order=order,
        )
        return self._hunted(order, failure, finished=False)

    # --- playing ----------------------------------------------------------------------------

    def _judged(self, attempt: Attempt) -> Attempt:
        name = self._promise.name
        self._exercised |= self._promise.step is not None or any(
            v.invariant == name and v.verdict == HELD for v in attempt.played.verdicts
        )
        return attempt

    def _stalled(self, at: Stalls) -> StalledRun | None:
        if self._budget.spent:
            return None
        self._budget.take()
        try:
            run = self._stage.stalled(at)
        except UNPLAYABLE:
            self._unplayable += 1
            return None
        self._seen.add(at)
        return replace(run, attempt=self._judged(replace(run.attempt, stalls=at)))

    def _attempts(self) -> Iterator[Attempt]:
        """Runs, the nearest first."""
        if (attempt := self._by_its_tape()) is not None:
            yield attempt
        first = self._stalled(())
        if first is None:
            return
        yield first.attempt
        if self._tape.labels is not None and (attempt := self._followed()) is not None:
            yield attempt
        places = self._places(first)
        if 0 < len(places) <= STALLS_MAX:
            names = tuple(one.name for one in self._left)[: len(places)]
            for run in following(places, names, self._stalled):
                yield run.attempt
        yield from self._around(first, places)

    def _by_its_tape(self) -> Attempt | None:
        """The tape as it is; ``None`` if it does not fit any more."""
        self._budget.take()
        try:
            outcome = replayed(self._opened)
        except UNPLAYABLE:
            self._unplayable += 1
            return None
        if outcome.kind is ReplayKind.DIVERGED or outcome.attempt is None:
            return None
        stalls = self._opened.failure.stalls
        return self._judged(
            replace(outcome.attempt, stalls=None if stalls is None else tuple(stalls))
        )

    def _followed(self) -> Attempt | None:
        if self._budget.spent:
            return None
        self._budget.take()
        try:
            return self._judged(self._stage.decided(Following(self._tape)))
        except UNPLAYABLE:
            self._unplayable += 1
            return None

    def _places(self, first: StalledRun) -> Stalls:
        """Where the tape leaves FIFO order, in the count of today's run in FIFO order."""
        if self._opened.failure.stalls is not None:
            return tuple(self._opened.failure.stalls)
        chosen = self._tape.chosen
        counted = range(first.opened, len(self._tape.choices))
        asked = [n for n in counted if chosen is None or chosen[n] not in PLUMBING]
        number = {choice: place for place, choice in enumerate(asked)}
        found = (number[one.choice] for one in self._left if one.choice in number)
        return tuple(dict.fromkeys(found))

    def _around(self, first: StalledRun, places: Stalls) -> Iterator[Attempt]:
        """Single stalls at every place, then pairs near old places."""

        def distance(place: int) -> int:
            return min((abs(place - old) for old in places), default=place)

        near: list[StalledRun] = []
        for place in sorted(range(len(first.heads)), key=lambda p: (distance(p), p)):
            run = self._stalled((place,))
            if run is None:
                continue
            yield run.attempt
            if distance(place) <= RADIUS:
                near.append(run)
        for run in near:
            for place in range(run.stalls[0] + 1, len(run.heads)):
                if distance(place) <= RADIUS and (*run.stalls, place) not in self._seen:
                    pair = self._stalled((*run.stalls, place))
                    if pair is not None:
                        yield pair.attempt
