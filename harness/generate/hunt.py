"""Looks for a scenario that breaks a promise, and lets Hypothesis make it small.

Hypothesis is run in batches of a few examples, each with a seed of its own: a batch is the unit that
is repeated, that a worker process gets, and after which the budget is looked at. In longer runs it
would spend most of its examples on variations of one, and stories that differ find more.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.errors import Flaky, Unsatisfiable

from harness.generate.drafts import Draft, drafts
from harness.generate.mending import scenario_of
from harness.generate.trial import Evidence, Outcome, Stage, without_step
from harness.scenario.model import Scenario
from harness.targets.vllm_rs.cache import cache_root
from harness.verdict import ERROR, NOT_JUDGED, VIOLATED

EXAMPLES = 10
"""Examples of a batch: the first is Hypothesis's simplest, after more than ten it only varies."""
BATCHES_MAX = 1 << 32
SHRINK_S = 60.0
"""Seconds for making a scenario small, by default."""
WAITS_MAX = 4
"""Steps that wait in vain and are left out of one scenario."""
Clock = Callable[[], float]
_Play = tuple[Outcome, Scenario, dict[str, Any]]


class _BrokenError(Exception):
    """A promise is broken; what Hypothesis shrinks."""


class _Enough(BaseException):
    """The time is up."""


@dataclass(frozen=True, slots=True)
class Found:
    """A scenario that breaks a promise.

    Attributes:
        data: as in a file.
        violated: invariant, or ``expectation``.
        seed: of the schedules.
        batch: in which it was found.
        seen: what was seen of it, in one line.
        evidence: see ``Outcome``.
        found_s: when, on the clock of the hunt.
    """

    data: dict[str, Any]
    scenario: Scenario
    violated: str
    seed: int
    batch: int
    seen: str = ""
    evidence: Evidence | None = None
    found_s: float | None = None

    @property
    def size(self) -> tuple[int, int, int]:
        """The smaller the better: steps and rules, then everything, then the seed."""
        rules = sum(len(entry.rules) for entry in self.scenario.engines)
        return len(self.scenario.steps) + rules, len(repr(self.data)), self.seed


@dataclass(slots=True)
class Tally:
    """What was done in a hunt.

    Attributes:
        shrinks: runs that only made what was found smaller.
        waits: steps that waited in vain, a weakness of the generator.
        impossible: why scenarios were not played to the end, another one.
        held: in how many scenarios an invariant was exercised and held.
        errors: what failed in the target or in us, and how often …
        erroneous: … and the first scenario that met it.
        dead_in_a_row: scenarios, the last ones, for which the target did not even start.
    """

    scenarios: int = 0
    schedules: int = 0
    batches: int = 0
    shrinks: int = 0
    waits: int = 0
    impossible: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    erroneous: dict[str, dict[str, Any]] = field(default_factory=dict)
    dead_in_a_row: int = 0

    def add(self, other: Tally) -> None:
        """Add what another one has."""
        for name in ("scenarios", "schedules", "batches", "shrinks", "waits"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.held += other.held
        self.errors += other.errors
        self.impossible += other.impossible
        self.erroneous = {**other.erroneous, **self.erroneous}
        self.dead_in_a_row = other.dead_in_a_row + (
            self.dead_in_a_row if other.dead_in_a_row == other.scenarios else 0
        )


@dataclass(slots=True)
class Limits:
    """How far a batch may go, in seconds on ``clock``.

    Attributes:
        until: when looking ends.
        shrink_s: how long making small may take from then on when something was found.
    """

    clock: Clock
    until: float
    shrink_s: float = SHRINK_S


def real_clock() -> float:
    """Seconds; a budget is spent in real time, and no run reads it."""
    return time.monotonic()  # noqa: TID251 - see above


def _keep_to_the_cache() -> None:
    """Let Hypothesis keep what it wants to keep in our cache, not in the user's folder."""
    if not os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY"):
        set_hypothesis_home_dir(cache_root() / "hypothesis")


class Batch:
    """A few examples of one seed."""

    def __init__(
        self, stage: Stage, hunt_seed: int, number: int, limits: Limits, *, shrink: bool = True
    ) -> None:
        _keep_to_the_cache()
        self._shrink = shrink
        self._known: frozenset[str] = frozenset()
        self._wanted: str | None = None
        self._stage = stage
        self._seed = hunt_seed
        self._number = number
        self._limits = limits
        self._best: Found | None = None
        self._shrink_until: float | None = None
        self._seen: dict[str, _Play] = {}
        self._can = stage.can()
        self.tally = Tally(batches=1)

    def run(
        self, *, known: frozenset[str] = frozenset(), wanted: str | None = None
    ) -> Found | None:
        """Play until something is found (and small), or the batch or the time is over.

        Args:
            known: broken promises that are not looked for any more.
            wanted: the only one that is looked for.
        """
        self._known, self._wanted = known, wanted
        phases = (Phase.generate, Phase.shrink) if self._shrink else (Phase.generate,)

        @seed(self._seed * BATCHES_MAX + self._number)
        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=phases,
            report_multiple_bugs=False,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(drafts(self._can))
        def one(draft: Draft) -> None:
            self._one(draft)

        # What was found is kept; on real sockets a race need not come again.
        with contextlib.suppress(_BrokenError, _Enough, Flaky, Unsatisfiable):
            one()
        return self._best

    def _one(self, draft: Draft) -> None:
        now = self._limits.clock()
        if now >= (self._limits.until if self._shrink_until is None else self._shrink_until):
            raise _Enough
        made = scenario_of(draft, self._can)
        if made is None:
            reject()
        scenario, data = made
        key = f"{data!r} {draft.seed}"
        if key not in self._seen:
            self._seen[key] = self._play(scenario, data, draft.seed)
        outcome, scenario, data = self._seen[key]
        if outcome.status == VIOLATED and outcome.violated is not None:
            self._keep(
                Found(
                    data,
                    scenario,
                    outcome.violated,
                    draft.seed,
                    self._number,
                    outcome.seen,
                    outcome.evidence,
                    now,
                )
            )

    def _play(self, scenario: Scenario, data: dict[str, Any], seed_: int) -> _Play:
        """Play it, and leave out steps that wait in vain: what they wait for was not sure."""
        tally = self.tally
        for _ in range(WAITS_MAX + 1):
            outcome = self._stage.play(scenario, seed_)
            tally.schedules += outcome.schedules
            if outcome.wait is None:
                break
            tally.waits += 1
            data = without_step(data, outcome.wait)
            scenario = Scenario.model_validate(data)
        if self._best is None:
            tally.scenarios += 1
        else:
            tally.shrinks += 1
        tally.held.update(outcome.held)
        tally.dead_in_a_row = tally.dead_in_a_row + 1 if outcome.dead else 0
        if outcome.status == NOT_JUDGED and outcome.error is not None:
            tally.impossible[outcome.error] += 1
        if outcome.status == ERROR:
            error = str(outcome.error).partition("\n")[0]
            tally.errors[error] += 1
            tally.erroneous.setdefault(error, data)
        return outcome, scenario, data

    def _keep(self, found: Found) -> None:
        if found.violated in self._known or self._wanted not in (None, found.violated):
            return
        if self._best is None:
            now = self._limits.clock()
            self._shrink_until = now + self._limits.shrink_s
            self._best = found
        elif found.violated != self._best.violated:
            return  # another promise; one at a time
        elif found.size < self._best.size:
            self._best = found
        raise _BrokenError(found.violated)
