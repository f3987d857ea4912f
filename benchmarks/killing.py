"""Schedules until a mutant's own invariant is violated, for one scenario and one strategy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from client.protocol.profiles import profile_for
from harness.cli.selecting import Part, chosen
from harness.hunting.plan import Candidate, candidates
from harness.hunting.prey import kills
from harness.mutants import discover, find_mutant
from harness.mutants.base import Mutant
from harness.runner import Campaign, RunOptions, cached_target
from harness.shrink.stage import UNPLAYABLE
from harness.targets.client_frontend import CAPABILITIES
from harness.targets.reference import SimTarget
from harness.verdict import HELD, VIOLATED


@dataclass(frozen=True, slots=True)
class Course:
    """What a campaign came to.

    Attributes:
        kill: number of the schedule, from 1, that violates the mutant's own invariant.
        played: how many were played.
        exercised: invariants whose situation arose.
        error: why a schedule could not be judged, which ends the campaign.
    """

    kill: int | None
    played: int
    exercised: frozenset[str]
    error: str = ""
    exhausted: bool = False


def course(
    candidate: Candidate, mutant: str | None, strategy: str, *, schedules: int, seed: int = 0
) -> Course:
    """Play one campaign, to the first kill or the end; without a mutant, to the end."""
    options = RunOptions(
        mutant=mutant, profile=candidate.release, strategy=strategy, schedules=schedules, seed=seed
    )
    wanted = None if mutant is None else find_mutant(mutant).killed_by
    profile = profile_for(candidate.release)
    campaign = Campaign(candidate.loaded, options, cached_target(options.request), profile)
    played, arose, error = 0, set[str](), ""
    try:
        for attempt in campaign.attempts():
            played += 1
            verdicts = attempt.verdicts
            arose |= {v.invariant for v in verdicts if v.verdict in (HELD, VIOLATED)}
            if wanted is not None and kills(verdicts, wanted):
                return Course(played, played, frozenset(arose))
    except UNPLAYABLE as broke:  # some mutants never come to an end in some scenarios
        error = str(broke)
    return Course(None, played, frozenset(arose), error, campaign.exhausted)


def trails(ids: Sequence[str] = ()) -> Iterable[tuple[type[Mutant], list[Candidate]]]:
    """Each mutant with the scenarios in which it can show, as the kill matrix takes them.

    Raises:
        ValueError: there is no mutant of one of the ids.
    """
    loaded = chosen((), Part())
    for mutant in [find_mutant(name) for name in ids] or discover():
        yield mutant, candidates(mutant, loaded, CAPABILITIES | SimTarget.extra)
