"""Every mutant has a reproduction that a person reads at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from client.protocol.profiles import profile_for
from harness.attempt import Attempt
from harness.hunting.plan import candidates
from harness.mutants import discover
from harness.mutants.base import Mutant
from harness.runner import Campaign, RunOptions, cached_target
from harness.scenario.loader import LoadedScenario
from harness.shrink.budget import Budget
from harness.shrink.promise import Promise
from harness.shrink.scenario import Case, Casting, ScenarioReduction, data_of
from harness.shrink.schedule import reduce_schedule
from harness.shrink.stage import UNPLAYABLE
from tests.support.collection import every_scenario

STEPS_MAX = 12
DEPARTURES_MAX = 3
RACES = 20
"""Scenarios, the likeliest first, in which more than FIFO order is tried."""
SCHEDULES = 120


@cache
def everything() -> tuple[LoadedScenario, ...]:
    return every_scenario()


def campaigns(mutant: type[Mutant]) -> Iterator[tuple[LoadedScenario, RunOptions]]:
    """Many orders of the likeliest scenario, FIFO order of each that may show it, more of some."""
    target = cached_target(RunOptions().request)
    capabilities = target.info.capabilities
    plan = candidates(mutant, everything(), capabilities)
    for strategy, schedules, some in (
        ("auto", SCHEDULES, plan[:1]),
        ("fifo", 1, plan[1:]),
        ("auto", SCHEDULES, plan[1:RACES]),
    ):
        for one in some:
            yield (
                one.loaded,
                RunOptions(
                    profile=one.release, mutant=mutant.id, strategy=strategy, schedules=schedules
                ),
            )


def killing(mutant: type[Mutant]) -> tuple[Casting, LoadedScenario, Attempt]:
    """A scenario, and a run of it in which the mutant's own invariant breaks."""
    promise = Promise(mutant.killed_by)
    for loaded, options in campaigns(mutant):
        target = cached_target(options.request)
        casting = Casting(target, profile_for(options.profile), mutant.id)
        if target.unsupported(loaded.scenario, casting.profile) is not None:
            continue
        found = _killed(Campaign(loaded, options, target, casting.profile), promise)
        if found is not None:
            return casting, loaded, found
    pytest.fail(f"no scenario kills {mutant.id}")


def _killed(campaign: Campaign, promise: Promise) -> Attempt | None:
    try:
        runs = campaign.attempts()
        return next((one for one in runs if promise.broken_in(one) is not None), None)
    except UNPLAYABLE:
        # Some mutants do not even start in some scenarios; that is no kill.
        return None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", discover(), ids=lambda mutant: mutant.id)
def test_reproduction_of_a_mutant_has_few_steps_and_departures(mutant: type[Mutant]) -> None:
    casting, loaded, attempt = killing(mutant)
    promise = Promise(mutant.killed_by)
    order = reduce_schedule(casting.stage(loaded.scenario), promise, attempt)
    names: tuple[str, ...] = ()
    if order.stalls:
        names = casting.stage(loaded.scenario).stalled(order.stalls).names
    case = Case(
        data_of(loaded.scenario), loaded.scenario, promise, order.attempt, order.stalls, names
    )
    small = ScenarioReduction(case, casting, Budget(3000)).run()
    stage = casting.stage(small.scenario)
    departures = stage.departures(small.attempt, small.stalls)
    assert promise.broken_in(small.attempt) is not None
    assert len(small.scenario.steps) <= STEPS_MAX
    assert len(departures) <= DEPARTURES_MAX
    # A correct client keeps its promise in the very same scenario and order.
    correct = casting.stage(small.scenario, mutant=False)
    assert promise.broken_in(correct.stalled(small.stalls or ()).attempt) is None
