"""What a run of scenarios produced: frozen data that maps 1:1 to the JSON report."""

from __future__ import annotations

from dataclasses import dataclass, field

RUNS_ON = "the frontend runs until it is told to end"
"""What every scenario expects of a frontend's process without saying so."""
ENDS = "comes to its end"
"""What every step is expected to do; the end of the words of one that does not."""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One ``expect`` step, a step that did not come to its end, or an end of the frontend in it.

    Attributes:
        step: index of the step in the file, from 0.
        status: ``held``, ``violated`` or ``not_judged``.
    """

    step: int
    status: str
    expected: str
    seen: str

    @property
    def frontend_ended(self) -> bool:
        """Whether the frontend's process ended although nobody asked; the rest follows from it."""
        return self.expected == RUNS_ON

    @property
    def never_ended(self) -> bool:
        """Whether the step did not come to its end; an expectation's words may end like this one's."""
        return self.expected.startswith(f"step {self.step} (") and self.expected.endswith(
            f") {ENDS}"
        )

    @property
    def title(self) -> str:
        """One line that stands alone, of a violated one."""
        if self.never_ended:
            return f"step {self.step} of the scenario does not come to its end"
        if not self.frontend_ended:
            return f"step {self.step} of the scenario did not see what it expects"
        how = self.seen.partition("\n")[0].rpartition(";")[0]
        return f"the frontend {how.removeprefix('it ')}"


@dataclass(frozen=True, slots=True)
class VerdictResult:
    """One invariant, over all schedules and trials of a scenario.

    Attributes:
        level: ``must`` or ``should``.
        verdict: ``held``, ``violated`` or ``not_judged``.
        reason: why it was not judged, else ``""``.
        exercised: how often the situation that it guards arose.
        witness: trace numbers of the events that show the violation, in order.
    """

    invariant: str
    level: str
    verdict: str
    reason: str = ""
    exercised: int = 0
    message: str = ""
    expected: str = ""
    seen: str = ""
    witness: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One scenario on one target in one profile.

    Attributes:
        scenario: its id.
        profile: the release whose promises were judged.
        status: ``held``, ``violated``, ``not_judged`` or ``error`` (see ``verdict.status_of``);
            ``unstable`` if repeats of it differ.
        known: what the scenario's ``known`` entries predict for this release of a real
            frontend: invariant ids, or ``expectation``; empty for the reference client.
        known_because: for each of these whose fault it is, why, and a link; not part of the JSON.
        error: what failed in us or in the target, or ``None``; of a violated scenario, what
            failed once the violation had been seen.
        schedules, trials: how many were played.
        digest: covers choices, verdicts and events of every schedule; ``None`` on real targets.
        duration_s: wall-clock seconds.
        failure_file: what ``wavecheck replay`` takes, or ``None``.
        witness_lines: the witness events of the first violation as text, not part of the JSON.
        reason: why nothing was judged although nothing failed, or ``None``.
        failure_file_error: why there is no failure file although one is due, or ``None``.
        failure_unwritten: name and text of a failure file on its way to the machine that wants
            it (``RunOptions.failures_travel``), not part of the JSON.
        should_lines: for each violated ``should`` its witness as text, not part of the JSON.
        start_failure: how the frontend failed before it was ready, alike for starts that fail
            alike, or ``None``; not part of the JSON.
        repeats: what each repeat came to, in order; empty where it was played once.
        explored: how far a search got, for people; ``""`` if it has nothing to tell.
        exhausted: whether every schedule that the search stands for was played.
        departures: where the schedule of the failure file leaves FIFO order, one line each;
            ``None``: it was not looked at, or there is no schedule.
    """

    scenario: str
    title: str
    refs: tuple[str, ...]
    profile: str
    mutant: str | None
    status: str
    known: tuple[str, ...] = ()
    error: str | None = None
    expectations: tuple[ExpectationResult, ...] = ()
    verdicts: tuple[VerdictResult, ...] = ()
    schedules: int = 0
    trials: int = 0
    strategy: str = ""
    seed: int = 0
    digest: str | None = None
    duration_s: float = 0.0
    failure_file: str | None = None
    reason: str | None = None
    witness_lines: tuple[str, ...] = field(default=())
    failure_file_error: str | None = None
    should_lines: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())
    repeats: tuple[str, ...] = ()
    start_failure: str | None = None
    explored: str = ""
    exhausted: bool = False
    departures: tuple[str, ...] | None = None
    failure_unwritten: tuple[str, str] | None = None
    known_because: tuple[tuple[str, str], ...] = ()
