"""Hunts mutants in worker processes: in the plain order first, then by a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from harness.cli.pool import Job, Work, run_jobs
from harness.hunting.hunt import hunt
from harness.hunting.plan import Candidate
from harness.hunting.prey import Bag, Prey, exercises, kills
from harness.mutants.base import Mutant
from harness.results import ScenarioResult
from harness.runner import RunOptions

OnStep = Callable[[str, int, int], None]
"""Told after each run: the phase, runs done, runs planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is played.

    Attributes:
        options: of every run; the mutant, the profile, the schedules are set for each.
        schedules, strategy: of the search for what FIFO alone does not show.
        full: play every scenario against every mutant, instead of stopping at its first kill.
    """

    options: RunOptions
    schedules: int
    strategy: str
    processes: int
    full: bool = False


@dataclass(slots=True)
class _Trail:
    """One mutant's candidates, and results by the place of the candidate."""

    mutant: type[Mutant]
    candidates: Sequence[Candidate]
    results: dict[int, ScenarioResult] = field(default_factory=dict)
    killed_at: int | None = None
    complete: bool = False

    def take(self, place: int, result: ScenarioResult) -> None:
        self.results[place] = result
        own = kills(result.verdicts, self.mutant.killed_by)
        if own and (self.killed_at is None or place < self.killed_at):
            self.killed_at = place

    def counted(self, *, full: bool) -> list[ScenarioResult]:
        """Results that count: workers may have played some beyond the first kill."""
        last = len(self.candidates) if full or self.killed_at is None else self.killed_at
        return [self.results[place] for place in sorted(self.results) if place <= last]


class Hunt:
    """One hunt. ``run`` it once.

    Args:
        trails: each mutant with its candidates, the likeliest first.
        limits: how much is played.
        on_step: told of progress.
        work: what plays a candidate.
    """

    def __init__(
        self,
        trails: Sequence[tuple[type[Mutant], Sequence[Candidate]]],
        limits: Limits,
        on_step: OnStep = lambda _phase, _done, _total: None,
        work: Work = hunt,
    ) -> None:
        self._trails = [_Trail(mutant, found) for mutant, found in trails]
        self._limits = limits
        self._on_step = on_step
        self._work = work
        self._prey = [Prey(mutant) for mutant, _ in trails]

    def run(self) -> Bag:
        """Hunt; an interruption keeps what is known by then."""
        interrupted = self._play("fifo", "fifo", 1, self._trails)
        self._sum_up(self._trails, complete=not interrupted and self._limits.schedules < 2)
        if not interrupted and self._limits.schedules >= 2:
            interrupted = self._search()
        return Bag(tuple(self._prey), interrupted)

    # --- the phases -------------------------------------------------------------------------

    def _search(self) -> bool:
        """Search for those that FIFO did not show, where it met what they break."""
        limits = self._limits
        left: list[_Trail] = []
        for place, trail in enumerate(self._trails):
            if trail.killed_at is not None:
                continue
            met = [
                candidate
                for number, candidate in enumerate(trail.candidates)
                if number in trail.results
                and exercises(trail.results[number], trail.mutant.killed_by)
            ]
            again = _Trail(trail.mutant, met or trail.candidates)
            self._trails[place] = again
            left.append(again)
        interrupted = self._play("search", limits.strategy, limits.schedules, left)
        self._sum_up(left, complete=not interrupted)
        return interrupted

    def _play(self, phase: str, strategy: str, schedules: int, trails: Sequence[_Trail]) -> bool:
        """Play candidates, one of each mutant in turn; whether it was interrupted."""
        order = [
            (trail, place)
            for row in zip_longest(
                *([(trail, place) for place in range(len(trail.candidates))] for trail in trails)
            )
            for pair in row
            if pair is not None
            for trail, place in [pair]
        ]
        options = replace(self._limits.options, strategy=strategy, schedules=schedules)
        jobs = [
            self._job(trail.candidates[place], replace(options, mutant=trail.mutant.id))
            for trail, place in order
        ]

        def wanted(index: int) -> bool:
            trail, place = order[index]
            return self._limits.full or trail.killed_at is None or place < trail.killed_at

        done = 0

        def on_done(index: int, result: ScenarioResult) -> None:
            nonlocal done
            done += 1
            trail, place = order[index]
            trail.take(place, result)
            self._on_step(phase, done, len(jobs))

        batch = run_jobs(
            jobs,
            self._work,
            processes=self._limits.processes,
            on_result=lambda _result: None,
            stops=lambda _result: False,
            on_done=on_done,
            wanted=wanted,
        )
        return batch.interrupted

    @staticmethod
    def _job(candidate: Candidate, options: RunOptions) -> Job:
        return Job(candidate.loaded, replace(options, profile=candidate.release))

    def _sum_up(self, trails: Sequence[_Trail], *, complete: bool) -> None:
        for place, trail in enumerate(self._trails):
            if not any(trail is each for each in trails):
                continue
            prey = self._prey[place]
            for result in trail.counted(full=self._limits.full):
                prey = prey.with_result(result)
            self._prey[place] = replace(prey, complete=complete or trail.killed_at is not None)
