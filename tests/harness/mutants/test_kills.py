"""Each mutant is killed on sim by its own invariant, in a scenario that holds without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.hunting.hunt import hunt
from harness.hunting.killers import KILLERS
from harness.hunting.plan import release_for
from harness.hunting.prey import kills
from harness.invariants import discover as discover_invariants
from harness.mutants import discover, find_mutant
from harness.mutants.base import FAMILIES
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.verdict import ERROR, HELD

SEARCHED = {
    "late-drop-releases-a-namesake": 20,
    "newest-output-first": 20,
    "request-that-is-over-aborted": 20,
    "every-request-is-a-first-one": 200,
    "report-behind-dropped": 200,
}
"""Mutants that the plain order does not show → schedules of ``auto`` that do."""

EACH = [
    pytest.param(name, marks=pytest.mark.slow) if SEARCHED.get(name, 1) > 100 else name
    for name in KILLERS
]


def played(name: str) -> RunOptions:
    schedules = SEARCHED.get(name, 1)
    strategy = "auto" if name in SEARCHED else "fifo"
    return RunOptions(schedules=schedules, strategy=strategy)


def the_scenario(name: str):
    (loaded,) = selection.load_all(selection.select([KILLERS[name]]))
    release = release_for(find_mutant(name), loaded.scenario)
    assert release is not None
    return loaded, release.release


def test_every_mutant_has_a_scenario_here():
    assert sorted(KILLERS) == [mutant.id for mutant in discover()]
    assert len(KILLERS) >= 40


def test_every_family_has_mutants_and_no_other_is_named():
    assert {mutant.family for mutant in discover()} == set(FAMILIES)


def test_every_invariant_kills_a_mutant():
    killers = {mutant.killed_by for mutant in discover()}
    assert killers == {invariant.id for invariant in discover_invariants()}


@pytest.mark.parametrize("name", EACH)
def test_mutant_is_killed_by_its_own_invariant_and_not_by_a_crash(name):
    loaded, release = the_scenario(name)
    options = played(name)
    result = hunt(loaded, replace(options, mutant=name, profile=release))
    assert result.status != ERROR
    assert result.error is None
    assert kills(result.verdicts, find_mutant(name).killed_by)
    assert (result.schedules > 1) == (name in SEARCHED)


@pytest.mark.parametrize("name", EACH)
def test_scenario_that_kills_a_mutant_holds_without_it(name):
    loaded, release = the_scenario(name)
    result = run_scenario(loaded, replace(played(name), profile=release))
    assert result.status == HELD, (result.reason, result.error)
    assert not kills(result.verdicts, find_mutant(name).killed_by)
