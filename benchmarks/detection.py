"""How many schedules a mutant lives: medians over campaigns, each with a seed of its own.

The scenarios are those of the kill matrix. Where plain FIFO order shows the fault, every campaign
of ``auto`` ends with its first schedule, which no seed changes: it is played once. For all others
the orders in which ``auto`` tries its candidates are those of the seeds 0, 1, … The coordinator that
goes back is forced by the scripts of the collection; it is measured in a scenario that leaves the
stale request to the schedule.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from benchmarks.killing import course, trails
from harness.hunting.plan import Candidate, release_for
from harness.mutants.base import Mutant
from harness.scenario.loader import load

WITHIN = {"coordinator-rewinds": 10}
"""Schedules within which the median is to be."""
WITHIN_OTHERS = 200
UNFORCED = {"coordinator-rewinds": Path(__file__).with_name("stale_first_request.yaml")}
"""Scenarios outside the collection, in which FIFO order does not show the fault."""
LONGEST = 1_000
"""Schedules of one campaign at most; a mutant that lives longer counts as this many."""


@dataclass(frozen=True, slots=True)
class Detection:
    """One mutant.

    Attributes:
        counts: schedules of each campaign; one entry if FIFO order shows it.
        survived: campaigns that ended without a kill.
    """

    mutant: str
    scenario: str
    counts: tuple[int, ...]
    by_fifo: bool
    survived: int = 0

    @property
    def median(self) -> float:
        """Of the campaigns."""
        return statistics.median(self.counts)

    @property
    def wanted(self) -> int:
        """What the median is not to exceed."""
        return WITHIN.get(self.mutant, WITHIN_OTHERS)

    @property
    def met(self) -> bool:
        """Whether it does not."""
        return self.median <= self.wanted and self.survived * 2 < len(self.counts)


def detect(mutant: type[Mutant], found: list[Candidate], campaigns: int) -> Detection:
    """Measure one mutant in the first of its scenarios that shows it.

    Raises:
        RuntimeError: none does.
    """
    if mutant.id in UNFORCED:
        loaded = load(UNFORCED[mutant.id])
        release = release_for(mutant, loaded.scenario)
        assert release is not None
        return seeded(mutant.id, Candidate(loaded, release.release), campaigns)
    met = []
    for candidate in found:
        first = course(candidate, mutant.id, "fifo", schedules=1)
        if first.kill:
            return Detection(mutant.id, candidate.scenario, (1,), by_fifo=True)
        if mutant.killed_by in first.exercised:
            met.append(candidate)
    for candidate in met or found:
        if course(candidate, mutant.id, "auto", schedules=LONGEST).kill:
            break
    else:
        msg = f"no scenario shows {mutant.id} within {LONGEST} schedules of auto"
        raise RuntimeError(msg)
    return seeded(mutant.id, candidate, campaigns)


def seeded(mutant: str, candidate: Candidate, campaigns: int) -> Detection:
    """Play a campaign of ``auto`` for each seed."""
    runs = [
        course(candidate, mutant, "auto", schedules=LONGEST, seed=seed) for seed in range(campaigns)
    ]
    counts = tuple(LONGEST if run.kill is None else run.kill for run in runs)
    survived = sum(run.kill is None for run in runs)
    return Detection(mutant, candidate.scenario, counts, by_fifo=False, survived=survived)


def table(campaigns: int, ids: tuple[str, ...]) -> bool:
    """Measure and print; whether every median is as wanted."""
    print(f"schedules of auto to the first kill, from the first step; {campaigns} campaigns")
    print(f"{'mutant':44}{'median':>7}{'90 %':>7}{'most':>7}  scenario")
    found = []
    for mutant, scenarios in trails(ids):
        one = detect(mutant, scenarios, campaigns)
        found.append(one)
        if one.by_fifo:
            print(f"{one.mutant:44}{1:>7}{'':14}  {one.scenario}: FIFO order shows it")
            continue
        ordered = sorted(one.counts)
        print(
            f"{one.mutant:44}{one.median:>7g}{ordered[len(ordered) * 9 // 10]:>7}{ordered[-1]:>7}"
            f"  {one.scenario}{f', {one.survived} survived' if one.survived else ''}",
            flush=True,
        )
    late = [one for one in found if not one.met]
    fifo = sum(one.by_fifo for one in found)
    print(f"{len(found)} mutants: {fifo} by FIFO order, {len(found) - fifo} by a search")
    for one in late:
        print(f"NOT as wanted: {one.mutant}, {one.median:g}, at most {one.wanted}")
    return not late
