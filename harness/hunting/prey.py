"""What became of each mutant, and what follows from that. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from harness.mutants.base import Mutant
from harness.results import ScenarioResult, VerdictResult
from harness.verdict import ERROR, EXPECTATION, HELD, VIOLATED, ExitCode

KILLED = "killed"
OTHERS_ONLY = "killed-by-others"
CRASHED = "crashed"
SURVIVED = "survived"
UNSOUND = "unsound"
NOT_RUN = "not-run"
STATUSES = {
    KILLED: "its own invariant is violated, and the same schedules hold without it",
    OTHERS_ONLY: "violated is something else only",
    CRASHED: "runs failed, and nothing was judged to be violated",
    SURVIVED: "everything held",
    UNSOUND: "the scenario that killed it does not hold without it",
    NOT_RUN: "interrupted before it was known",
}
"""What may become of a mutant. All but the first and the last make the command end with 1."""


@dataclass(frozen=True, slots=True)
class Hunted(ScenarioResult):
    """What one scenario came to against a mutant.

    Attributes:
        control: of a kill: the status of the same schedules without the mutant.
    """

    control: str | None = None


@dataclass(frozen=True, slots=True)
class Kill:
    """One scenario in which a mutant was violated, and what was.

    Attributes:
        schedules: how many were played in this scenario, up to this one.
        own: whether the mutant's own invariant is among what was violated.
        violated: invariants, by id; ``expectation`` last.
        control: of one by its own invariant: status of the same schedules without the mutant.
    """

    scenario: str
    profile: str
    strategy: str
    schedules: int
    own: bool
    violated: tuple[str, ...]
    failure_file: str | None = None
    control: str | None = None


@dataclass(frozen=True, slots=True)
class Crash:
    """One scenario that could not be judged against a mutant."""

    scenario: str
    error: str


@dataclass(frozen=True, slots=True)
class Prey:
    """One mutant, and what was seen of it.

    Attributes:
        kills: in the order in which scenarios are tried.
        scenarios, schedules: how many were played until its first kill, or at all.
        complete: whether everything was played that was to be.
    """

    mutant: type[Mutant]
    kills: tuple[Kill, ...] = ()
    crashes: tuple[Crash, ...] = ()
    scenarios: int = 0
    schedules: int = 0
    complete: bool = False

    @property
    def killer(self) -> Kill | None:
        """The first kill by its own invariant."""
        return next((kill for kill in self.kills if kill.own), None)

    @property
    def status(self) -> str:
        """One of ``STATUSES``."""
        if self.killer is not None:
            return KILLED if self.killer.control == HELD else UNSOUND
        if not self.complete:
            return NOT_RUN
        if self.kills:
            return OTHERS_ONLY
        return CRASHED if self.crashes else SURVIVED

    @property
    def by_fifo(self) -> bool:
        """Whether the plainest order of events was enough."""
        return self.killer is not None and self.killer.strategy == "fifo"

    def with_result(self, result: ScenarioResult) -> Prey:
        """Add what one scenario came to."""
        found = replace(
            self, scenarios=self.scenarios + 1, schedules=self.schedules + result.schedules
        )
        if result.status == ERROR:
            crash = Crash(result.scenario, result.error or "")
            return replace(found, crashes=(*self.crashes, crash))
        violated = [v.invariant for v in result.verdicts if v.verdict == VIOLATED]
        if any(e.status == VIOLATED for e in result.expectations):
            violated.append(EXPECTATION)
        if not violated:
            return found
        kill = Kill(
            scenario=result.scenario,
            profile=result.profile,
            strategy=result.strategy,
            schedules=result.schedules,
            own=kills(result.verdicts, self.mutant.killed_by),
            violated=tuple(violated),
            failure_file=result.failure_file,
            control=result.control if isinstance(result, Hunted) else None,
        )
        return replace(found, kills=(*self.kills, kill))


@dataclass(frozen=True, slots=True)
class Bag:
    """All mutants of one hunt.

    Attributes:
        prey: in the order of families, then by id.
        unkilled: invariants that were not seen to kill any mutant of theirs.
    """

    prey: tuple[Prey, ...]
    interrupted: bool = False
    unkilled: tuple[str, ...] = field(default=())

    def of(self, status: str) -> list[Prey]:
        """Those of one status."""
        return [each for each in self.prey if each.status == status]

    @property
    def code(self) -> ExitCode:
        """0: all killed; 1: some are not; 130: interrupted, whatever is known so far."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if len(self.of(KILLED)) < len(self.prey):
            return ExitCode.VIOLATION
        return ExitCode.OK


def without_killer(prey: Sequence[Prey], invariants: Iterable[str]) -> tuple[str, ...]:
    """Invariants that killed no mutant of theirs here."""
    killers = {each.mutant.killed_by for each in prey if each.status == KILLED}
    return tuple(name for name in invariants if name not in killers)


def kills(verdicts: Iterable[VerdictResult], invariant: str) -> bool:
    """Whether this invariant is violated, whatever its level."""
    return any(v.invariant == invariant and v.verdict == VIOLATED for v in verdicts)


def exercises(result: ScenarioResult, invariant: str) -> bool:
    """Whether the situation that the invariant guards arose, so that a schedule may break it."""
    return any(v.invariant == invariant and v.verdict in (HELD, VIOLATED) for v in result.verdicts)
