"""Recorded runs whose evidence is to be mutated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from client.protocol.profiles import NEWEST
from harness.invariants import discover
from harness.invariants.base import Judge, RunContext, Verdict
from harness.play import PlaySpec, play
from harness.runner import choose_profile, make_spec
from harness.scenario.loader import LoadedScenario
from harness.scenario.needs import needs
from harness.sim.errors import StepLimitExceeded
from harness.sim.loop import STEP_LIMIT
from harness.strategies import make_strategy
from harness.targets.base import TargetError
from harness.targets.reference import SimTarget
from harness.trace.events import Event, Record
from harness.worlds import SimWorld

EARLIER = "0.32.0"
"""The last release whose frontends tell the coordinator of first requests."""


@dataclass(frozen=True)
class Run:
    """One run on ``sim``: what was recorded, and what a judge may know besides."""

    name: str
    spec: PlaySpec
    records: tuple[Record, ...]

    @cached_property
    def context(self) -> RunContext:
        """Made as ``play`` makes it."""
        return RunContext(
            scenario=self.spec.scenario,
            release=self.spec.profile.version,
            capabilities=self.spec.capabilities,
            ranks=tuple(self.spec.scenario.topology.rank_list),
        )

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Without numbers and times."""
        return tuple(record.event for record in self.records)

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Of the evidence as it is."""
        return self.judged(self.records)

    def judged(self, records: Sequence[Record]) -> dict[str, Verdict]:
        """What all invariants say of some evidence, by id."""
        judge = Judge(discover(), self.context)
        for record in records:
            judge.feed(record)
        return {verdict.invariant: verdict for verdict in judge.verdicts()}


def record(
    loaded: LoadedScenario,
    *,
    release: str | None = None,
    mutant: str | None = None,
    seed: int | None = None,
    steps: int = STEP_LIMIT,
) -> Run | None:
    """Play a scenario once, in FIFO order or under a random walk; ``None`` if it does not apply.

    A run that broke off, or does not end within so many steps of the loop, leaves no whole trace, and
    is ``None``, too.
    """
    target, scenario = SimTarget(), loaded.scenario
    profile = choose_profile(target, scenario, release)
    if profile is None or needs(scenario) - target.capabilities(profile):
        return None
    spec = make_spec(scenario, target, profile, mutant)
    walk = make_strategy("fifo", 0, 0) if seed is None else make_strategy("random", seed, 0)
    try:
        played = play(spec, SimWorld(walk, step_limit=steps))
    except (TargetError, StepLimitExceeded):
        return None
    if played.broke is not None:
        return None
    words = [loaded.id, profile.release]
    if mutant is not None:
        words.append(mutant)
    return Run(" ".join(words), spec, tuple(played.records))


def releases_of(loaded: LoadedScenario) -> tuple[str | None, ...]:
    """The newest release that applies, and for waves one that is older than the last change there."""
    waves = loaded.scenario.topology.coordinator != "none"
    return (None, EARLIER) if waves and NEWEST != EARLIER else (None,)
