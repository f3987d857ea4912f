"""A smaller scenario in which the same promise breaks, with as few departures from FIFO.

Greedy: of each pass every candidate that still fails is kept, until none of any pass does. A
candidate that the loader would refuse, that the target cannot play, or in which a correct client
breaks the promise as well, is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from packaging.specifiers import SpecifierSet
from pydantic import ValidationError

from client.protocol.profiles import Profile
from harness.attempt import Attempt
from harness.runner import cached_target, make_spec
from harness.scenario.checks import check
from harness.scenario.loader import default_vocabulary
from harness.scenario.model import Scenario
from harness.scenario.needs import needs
from harness.shrink.budget import Budget
from harness.shrink.closures import Data, verb_of
from harness.shrink.following import following
from harness.shrink.promise import Broken, Promise
from harness.shrink.ranks import ranks
from harness.shrink.smaller import PASSES, Pass, nodes, total
from harness.shrink.stage import UNPLAYABLE, Stage, StalledRun, Stalls
from harness.targets.request import TargetRequest
from harness.targets.target import Target, part_for

TRIALS = 3
"""Runs of a candidate on a target whose order nobody chooses."""
STEPS_MIN, STEPS_PER_CHOICE = 20_000, 10
"""Steps of the loop that a candidate may take, however short the first failure was, and for each of its choices."""
FOLLOWED = 40
"""Schedules of a candidate that are tried where the failing one departs from FIFO order."""
Size = tuple[int, int, int, int]
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Casting:
    """Who plays: the target, its profile and the mutant."""

    target: Target
    profile: Profile
    mutant: str | None

    def stage(
        self, scenario: Scenario, *, mutant: bool = True, steps_max: int | None = None
    ) -> Stage:
        """Where a scenario is played; ``mutant``: with it, if there is one."""
        target = part_for(self.target, scenario)
        spec = make_spec(scenario, target, self.profile, self.mutant if mutant else None)
        return Stage(spec, target, steps_max)

    def can_play(self, scenario: Scenario) -> bool:
        """Whether the target can play it."""
        if self.profile.version not in SpecifierSet(scenario.profiles):
            return False
        target = part_for(self.target, scenario)
        if needs(scenario) - target.capabilities(self.profile):
            return False
        return target.unsupported(scenario, self.profile) is None

    def correct(self) -> Casting | None:
        """The same with a client that keeps all promises; ``None``: this is it."""
        if self.mutant is not None and not self.target.black_box:
            return replace(self, mutant=None)
        if self.target.black_box:
            return Casting(cached_target(TargetRequest("sim")), self.profile, None)
        return None


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario that fails, and how.

    Attributes:
        data: it as in its file, without what is not set.
        stalls: those of its schedule; ``None``: it has another one, or none.
        names: what they leave out.
    """

    data: Data
    scenario: Scenario
    promise: Promise
    attempt: Attempt
    stalls: Stalls | None = None
    names: tuple[str, ...] = ()

    @property
    def size(self) -> Size:
        """What is made smaller, the most important first: steps, engines, what is to be read.

        Events count beside what stands in the file: a key that is left out may stand for much.
        """
        return self._size(len(self.attempt.played.records))

    @property
    def size_at_least(self) -> Size:
        """Its size if nothing at all happened in it: what is known before it is played."""
        return self._size(0)

    def _size(self, events: int) -> Size:
        steps = self.data["steps"]
        return len(steps), len(ranks(self.data)), nodes(self.data) + events, total(self.data)


def data_of(scenario: Scenario) -> dict[str, Any]:
    """A scenario as in its file."""
    return scenario.model_dump(exclude_unset=True)


class ScenarioReduction:
    """Makes one case smaller.

    Args:
        casting: who plays.
        budget: how much may be tried.
        watch: told each smaller case.

    Attributes:
        case: the smallest one so far.
    """

    def __init__(
        self,
        case: Case,
        casting: Casting,
        budget: Budget,
        watch: Callable[[Case], None] = lambda _case: None,
    ) -> None:
        self.case = case
        self._casting = casting
        self._correct = casting.correct()
        self._budget = budget
        self._watch = watch
        self._wanted = case.promise.broken_in(case.attempt)
        self._tried: set[str] = set()
        tape = case.attempt.tape
        choices = 0 if tape is None else len(tape.choices)
        # Ranks that never agree again step for ever: a candidate like that is no smaller one.
        self._steps_max = max(STEPS_MIN, STEPS_PER_CHOICE * choices)

    def run(self) -> Case:
        """Go through all passes until none makes it smaller, or the budget is spent."""
        before: Size | None = None
        while before != self.case.size and not self._budget.spent:
            before = self.case.size
            for one in PASSES:
                self._through(one)
        return self.case

    def _through(self, one: Pass) -> None:
        index = 0
        while not self._budget.spent:
            for number, data in enumerate(one(self.case.data)):
                if number >= index and self._accept(data):
                    # What stood behind what was taken out is at this number now.
                    index = number
                    break
            else:
                return

    def _accept(self, data: Data) -> bool:
        """Take over a candidate that is smaller and fails alike."""
        if self._budget.spent or (key := repr(data)) in self._tried:
            return False
        self._tried.add(key)
        promise = self._promise_in(data)
        scenario = self._valid(data)
        if promise is None or scenario is None:
            return False
        candidate = replace(self.case, data=data, scenario=scenario, promise=promise)
        if candidate.size_at_least >= self.case.size or not self._casting.can_play(scenario):
            return False
        found = self._failing(candidate)
        if found is None or found.size >= self.case.size or self._fails_anyway(found):
            return False
        self.case = found
        self._watch(found)
        return True

    def _promise_in(self, data: Data) -> Promise | None:
        """The same promise where steps have moved; ``None`` if its step is gone."""
        step = self.case.promise.step
        if step is None:
            return self.case.promise
        whole = self.case.data["steps"][step]
        places = [number for number, one in enumerate(data["steps"]) if one is whole]
        return self.case.promise.at(places[0]) if places else None

    def _valid(self, data: Data) -> Scenario | None:
        try:
            scenario = Scenario.model_validate(data)
        except ValidationError:
            return None
        return None if check(scenario, default_vocabulary()) else scenario

    # --- playing ----------------------------------------------------------------------------

    def _failing(self, candidate: Case) -> Case | None:
        """The candidate with a run that breaks the promise; ``None`` if none was found."""
        stage = self._casting.stage(candidate.scenario, steps_max=self._steps_max)
        if not stage.ordered:
            for _ in range(TRIALS):
                attempt = self._tried_once(stage.trial)
                if attempt is not None and self._alike(candidate, attempt):
                    return replace(candidate, attempt=attempt)
                if attempt is not None and attempt.played.story.stuck:
                    # It waited in vain for as long as a step may take; once is enough.
                    return None
            return None
        # A tape that is no set of stalls tells no place: any will do.
        wanted = (0,) if self.case.stalls is None else self.case.stalls
        plans = following(wanted, self.case.names, lambda at: self._stalled(stage, at))
        for run, _ in zip(plans, range(FOLLOWED), strict=False):
            if self._alike(candidate, run.attempt):
                return replace(candidate, attempt=run.attempt, stalls=run.stalls, names=run.names)
        return None

    def _stalled(self, stage: Stage, at: Stalls) -> StalledRun | None:
        return self._tried_once(lambda: stage.stalled(at))

    def _tried_once(self, play: Callable[[], Outcome]) -> Outcome | None:
        if self._budget.spent:
            return None
        self._budget.take()
        try:
            return play()
        except UNPLAYABLE:
            return None

    def _alike(self, candidate: Case, attempt: Attempt) -> bool:
        """Whether a run breaks the promise in the way of the first one."""
        broken = candidate.promise.broken_in(attempt)
        if broken is None:
            return False
        if self._correct is not None or self._wanted is None or candidate.promise.step is None:
            return True
        # Nobody can say whether a correct client would fail here too, so what it expected and
        # saw has to stay.
        verb = verb_of(candidate.data["steps"][candidate.promise.step])
        return verb != "expect" or _values(broken) == _values(self._wanted)

    def _fails_anyway(self, found: Case) -> bool:
        """Whether a correct client breaks the promise too: then the scenario asks too much."""
        if self._correct is None or not self._correct.can_play(found.scenario):
            return False
        stage = self._correct.stage(found.scenario, mutant=False, steps_max=self._steps_max)
        plays: list[Callable[[], Attempt]] = [stage.trial]
        if stage.ordered:
            places = dict.fromkeys([(), found.stalls or ()])
            plays = [lambda at=at: stage.stalled(at).attempt for at in places]  # type: ignore[misc]
        for play in plays:
            attempt = self._tried_once(play)
            if attempt is None or found.promise.broken_in(attempt) is not None:
                return True
        return False


def _values(broken: Broken) -> tuple[str, str]:
    return broken.expected, broken.seen
