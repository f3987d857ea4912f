"""The fewest departures from FIFO order that still break the same promise.

First FIFO order itself, then one stall at every place, then pairs of them. What none of those
shows keeps its own tape, with as many of its choices as possible back in FIFO order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.attempt import Attempt
from harness.shrink.budget import Budget
from harness.shrink.ddmin import minimised
from harness.shrink.departures import Departure
from harness.shrink.promise import Promise
from harness.shrink.stage import UNPLAYABLE, Stage, StalledRun, Stalls
from harness.strategies.shuffle import shuffled

RUNS = 300
"""Runs that a reduction gets by default: a few seconds."""
SECONDS = 10.0
"""Safety net for runs that take long."""
PAIRS_SHARE = 0.5
"""Of the runs that single stalls leave over, the share that pairs get; the tape gets the rest."""
NAMED_LAST = "what `explore` does not name ran before what it names"
SEED = 0
"""Of the order in which places are tried; any would do."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A failing schedule.

    Attributes:
        promise: what it breaks.
        stalls: what it is made of; ``None``: a tape that is no set of stalls.
        departures: where it leaves FIFO order.
        explores: whether the scenario names what its order of events is about.
    """

    promise: Promise
    attempt: Attempt
    stalls: Stalls | None
    departures: tuple[Departure, ...]
    explores: bool = False

    @property
    def witness(self) -> tuple[int, ...]:
        """Trace numbers of the events that show it."""
        broken = self.promise.broken_in(self.attempt)
        return () if broken is None else broken.witness

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each departure, behind what ``explore`` in the scenario does by itself."""
        named = self.stalls is not None and self.explores
        lines = tuple(departure.line for departure in self.departures)
        return (NAMED_LAST, *lines) if named else lines


def reduce_schedule(
    stage: Stage, promise: Promise, failed: Attempt, budget: Budget | None = None
) -> Schedule:
    """Reduce a failing schedule of a simulated run.

    Args:
        stage: where its scenario is played.
        promise: what it breaks, and the reduced one too.
        failed: the schedule; if it knows its stalls, nothing with fewer is looked for but in them.
        budget: what may be tried; by default ``RUNS``.

    Raises:
        TargetError, SimulationError, ScriptError: the failing run itself cannot be played again.
    """
    return _Reduction(stage, promise, Budget(RUNS, SECONDS) if budget is None else budget).of(
        failed
    )


class _Reduction:
    def __init__(self, stage: Stage, promise: Promise, budget: Budget) -> None:
        self._stage = stage
        self._promise = promise
        self._budget = budget

    def of(self, failed: Attempt) -> Schedule:
        found = self._known(failed.stalls) if failed.stalls is not None else self._looked_for()
        if found is not None:
            return self._schedule(found.attempt, found.stalls)
        if failed.stalls is not None:
            return self._schedule(failed, failed.stalls)
        return self._schedule(self._of_its_tape(failed), None)

    def _schedule(self, attempt: Attempt, stalls: Stalls | None) -> Schedule:
        return Schedule(
            self._promise,
            attempt,
            stalls,
            self._stage.departures(attempt, stalls),
            explores=bool(self._stage.spec.scenario.explore),
        )

    def _fails(self, at: Stalls) -> StalledRun | None:
        run = self._run(at)
        return run if run is not None and self._promise.broken_in(run.attempt) else None

    def _run(self, at: Stalls) -> StalledRun | None:
        if self._budget.spent:
            return None
        self._budget.take()
        try:
            return self._stage.stalled(at)
        except UNPLAYABLE:
            # Another schedule breaks the target in another way; that is not this failure.
            return None

    def _known(self, stalls: Stalls) -> StalledRun | None:
        """One with fewer of the same stalls."""
        for count in range(len(stalls)):
            for at in combinations(stalls, count):
                if (run := self._fails(at)) is not None:
                    return run
        return None

    def _looked_for(self) -> StalledRun | None:
        first = self._run(())
        if first is None or self._promise.broken_in(first.attempt):
            return first
        singles: list[StalledRun] = []
        for place in shuffled(range(len(first.heads)), SEED):
            run = self._run((place,))
            if run is not None and self._promise.broken_in(run.attempt):
                return run
            if run is not None:
                singles.append(run)
        return self._pair(singles)

    def _pair(self, singles: Sequence[StalledRun]) -> StalledRun | None:
        pairs = [
            (*run.stalls, place)
            for run in singles
            for place in range(run.stalls[0] + 1, len(run.heads))
        ]
        tries = int(self._budget.left * PAIRS_SHARE)
        for at, _ in zip(shuffled(pairs, SEED), range(tries), strict=False):
            if (run := self._fails(at)) is not None:
                return run
        return None

    def _of_its_tape(self, failed: Attempt) -> Attempt:
        """Fewer choices of its own tape that are not the first."""
        assert failed.tape is not None
        best = failed

        def fails(answers: Sequence[tuple[int, int]]) -> bool:
            nonlocal best
            if self._budget.spent:
                return False
            self._budget.take()
            try:
                attempt = self._stage.sparse(dict(answers))
            except UNPLAYABLE:
                return False
            if self._promise.broken_in(attempt) is None:
                return False
            best = attempt
            return True

        choices = enumerate(failed.tape.choices)
        left = [(number, choice) for number, (choice, _) in choices if choice]
        minimised(left, fails)
        return best
