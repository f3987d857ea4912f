"""Plays one scenario against one mutant until the mutant's own invariant is violated."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice

from client.protocol.profiles import profile_for
from harness.hunting.prey import Hunted, kills
from harness.mutants import find_mutant
from harness.results import ExpectationResult, VerdictResult
from harness.runner import Campaign, RunOptions, cached_target
from harness.scenario.loader import LoadedScenario
from harness.targets.base import TargetError
from harness.verdict import (
    ERROR,
    NOT_JUDGED,
    VIOLATED,
    merge_all,
    merge_expectations,
    status_of,
)


def hunt(loaded: LoadedScenario, options: RunOptions) -> Hunted:
    """Play the schedules of one campaign; the mutant and the profile are in the options.

    Unlike ``run_scenario`` it does not stop at a violation of something else: that may be a
    consequence which happens to come first. A kill of a ``should`` invariant counts as one. What
    was killed is played as often without the mutant: it must be the mutant's fault.

    Returns:
        A result whose ``schedules`` says how many were played, the kill included, and whose
        verdicts are those of the killing schedule alone.

    Raises:
        KeyboardInterrupt: interrupted; nothing of the run is left behind.
    """
    began = time.monotonic()  # noqa: TID251 - duration for people, no decision
    result = _hunt(loaded, options)
    return replace(result, duration_s=round(time.monotonic() - began, 3))  # noqa: TID251


def _hunt(loaded: LoadedScenario, options: RunOptions) -> Hunted:
    assert options.mutant is not None
    assert options.profile is not None
    scenario, wanted = loaded.scenario, find_mutant(options.mutant).killed_by
    result = Hunted(
        scenario=loaded.id,
        title=scenario.title,
        refs=tuple(scenario.refs),
        profile=options.profile,
        mutant=options.mutant,
        status=NOT_JUDGED,
        strategy=options.strategy,
        seed=options.seed,
    )
    campaign = Campaign(
        loaded, options, cached_target(options.request), profile_for(options.profile)
    )
    expectations: tuple[ExpectationResult, ...] = ()
    verdicts: tuple[VerdictResult, ...] = ()
    played = 0
    try:
        for attempt in campaign.attempts():
            played += 1
            if kills(attempt.verdicts, wanted):
                result = replace(
                    result,
                    control=without_mutant(loaded, options, played),
                    status=VIOLATED,
                    schedules=played,
                    expectations=tuple(attempt.expectations),
                    verdicts=tuple(attempt.verdicts),
                    error=attempt.played.broke,
                )
                if options.out is None or not attempt.violated:
                    return result
                kept = campaign.with_failure(result, attempt)
                return replace(result, failure_file=kept.failure_file)
            expectations = merge_expectations((expectations, attempt.expectations))
            verdicts = merge_all((verdicts, attempt.verdicts))
    except TargetError as error:
        return replace(result, status=ERROR, schedules=played, error=str(error))
    status = status_of(None, expectations, verdicts, own_invariants=scenario.invariants)
    return replace(
        result, status=status, schedules=played, expectations=expectations, verdicts=verdicts
    )


def without_mutant(loaded: LoadedScenario, options: RunOptions, count: int) -> str:
    """Play the first ``count`` schedules without the mutant; the status of a run."""
    assert options.profile is not None
    right = replace(options, mutant=None, out=None)
    campaign = Campaign(loaded, right, cached_target(right.request), profile_for(options.profile))
    expectations: tuple[ExpectationResult, ...] = ()
    verdicts: tuple[VerdictResult, ...] = ()
    try:
        for attempt in islice(campaign.attempts(), count):
            expectations = merge_expectations((expectations, attempt.expectations))
            verdicts = merge_all((verdicts, attempt.verdicts))
    except TargetError:
        return ERROR
    return status_of(
        None, expectations, verdicts, own_invariants=[*loaded.scenario.invariants, *_all(verdicts)]
    )


def _all(verdicts: tuple[VerdictResult, ...]) -> list[str]:
    """Whatever was judged will do: a scenario of another chapter may kill as well."""
    return [verdict.invariant for verdict in verdicts]
