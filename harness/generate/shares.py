"""A hunt in shares: a share is some batches, played here or in a worker process.

A share only looks; what was found is made small later, by whoever asked. Which shares are counted
does not depend on how many processes there are: those before the first that found something.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cli.pool import Job
from harness.generate.hunt import Batch, Found, Limits, Tally, real_clock
from harness.generate.mending import PROMISE, REFERENCE, TITLE
from harness.generate.trial import Stage
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Scenario, Step
from harness.scenario.positions import parse_yaml
from harness.verdict import HELD, VIOLATED

BATCHES = 5
"""Batches of a share: a few tens of scenarios, about a second."""
SHARES_A_SECOND = 20
"""More than there can be."""
STARTS_MAX = 5
"""So many starts in a row that fail alike, and the target is taken for broken."""


@dataclass(frozen=True, slots=True)
class ShareResult(ScenarioResult):
    """What came of a share.

    Attributes:
        found: the first scenario for each broken promise, in the order in which they were found.
        hopeless: why the target cannot be played at all, or ``""``.
        whole: the end of the time did not cut it short.
    """

    found: tuple[Found, ...] = ()
    tally: Tally = field(default_factory=Tally)
    hopeless: str = ""
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Share:
    """Plays one share; ``run_jobs`` calls it with the share's number in the id.

    Attributes:
        seed: of the hunt.
        until: when looking ends, on the monotonic clock that all processes share.
        keep_going: look on when something was found, for other promises.
        batches: how many there are in all shares together; ``None``: any number.
    """

    seed: int
    until: float
    keep_going: bool = False
    batches: int | None = None

    def __call__(self, loaded: LoadedScenario, options: RunOptions) -> ShareResult:
        """Play the share."""
        stage = Stage(options)
        tally = Tally()
        found: dict[str, Found] = {}
        hopeless = ""
        whole = True
        first = number_of(loaded) * BATCHES
        last = first + BATCHES if self.batches is None else min(first + BATCHES, self.batches)
        for number in range(first, last):
            if real_clock() >= self.until:
                whole = False
                break
            batch = Batch(stage, self.seed, number, Limits(real_clock, self.until), shrink=False)
            one = batch.run(known=frozenset(found))
            tally.add(batch.tally)
            whole = whole and real_clock() < self.until
            if one is not None:
                found.setdefault(one.violated, one)
                if not self.keep_going:
                    break
            if tally.dead_in_a_row >= STARTS_MAX and not tally.held:
                hopeless = next(reversed(tally.errors))
                break
        return ShareResult(
            scenario=loaded.id,
            title=TITLE,
            refs=(REFERENCE,),
            profile=options.profile or "",
            mutant=options.mutant,
            status=VIOLATED if found else HELD,
            found=tuple(found.values()),
            tally=tally,
            hopeless=hopeless,
            whole=whole and last == first + BATCHES,
        )


def number_of(loaded: LoadedScenario) -> int:
    """The number of the share that a job is for."""
    return number_of_id(loaded.id)


def number_of_id(name: str) -> int:
    """The same from its id."""
    return int(name.rpartition("-")[2])


def count_of(budget_s: float | None, batches: int | None) -> int:
    """So many shares as these batches are, or more than there is time for."""
    if batches is not None:
        return math.ceil(batches / BATCHES)
    assert budget_s is not None
    return int(budget_s * SHARES_A_SECOND) + 1


def jobs(options: RunOptions, numbers: Iterable[int]) -> Sequence[Job]:
    """The shares with these numbers."""
    nothing = Scenario(title=TITLE, promise=PROMISE, refs=[REFERENCE], steps=[Step(fence=True)])
    positions = parse_yaml("{}")[1]
    return [
        Job(LoadedScenario(f"share-{number}", Path("share"), nothing, positions, ""), options)
        for number in numbers
    ]
