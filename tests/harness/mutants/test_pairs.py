"""Faults that random walks miss, and that one stall shows within the same number of schedules."""

from __future__ import annotations

import pytest

from harness.hunting.hunt import hunt
from harness.hunting.plan import release_for
from harness.hunting.prey import kills
from harness.mutants import find_mutant
from harness.runner import RunOptions
from harness.scenario import selection
from harness.verdict import HELD

PAIRS = {
    "every-request-is-a-first-one": "waves/rewind-under-a-flood-of-waves",
    "late-drop-releases-a-namesake": "requests/late-drop-leaves-the-next-of-its-name-alone",
    "request-that-is-over-aborted": "requests/aborted-then-left",
}
"""Mutant → scenario, in whose plain order of events nothing shows."""
BUDGET = 15
"""Schedules of each strategy."""
SEEDS = (4, 7)
"""Of twelve seeds random walks miss them with 11, 12 and 3; stalls kill them with each of those."""


def hunted(mutant: str, strategy: str, seed: int):
    (loaded,) = selection.load_all(selection.select([PAIRS[mutant]]))
    release = release_for(find_mutant(mutant), loaded.scenario)
    assert release is not None
    options = RunOptions(
        mutant=mutant, profile=release.release, strategy=strategy, schedules=BUDGET, seed=seed
    )
    return hunt(loaded, options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mutant", PAIRS)
def test_stall_kills_what_random_walks_miss_at_equal_budget(mutant: str, seed: int) -> None:
    wanted = find_mutant(mutant).killed_by
    walks, stalls = (hunted(mutant, strategy, seed) for strategy in ("random", "stall"))
    assert (walks.schedules, kills(walks.verdicts, wanted)) == (BUDGET, False)
    assert kills(stalls.verdicts, wanted)
    assert 1 < stalls.schedules <= BUDGET
    assert stalls.control == HELD
