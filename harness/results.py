"""What a run of scenarios produced: frozen data that maps 1:1 to the JSON report."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One ``expect`` step, or a step that did not come to its end.

    Attributes:
        step: index of the step in the file, from 0.
        status: ``held``, ``violated`` or ``not_judged``.
    """

    step: int
    status: str
    expected: str
    seen: str


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
        error: what failed in us or in the target, or ``None``.
        schedules, trials: how many were played.
        digest: covers choices, verdicts and events of every schedule; ``None`` on real targets.
        duration_s: wall-clock seconds.
        failure_file: what ``wavecheck replay`` takes, or ``None``.
        witness_lines: the witness events of the first violation as text, not part of the JSON.
        reason: why nothing was judged although nothing failed, or ``None``.
        failure_file_error: why there is no failure file although one is due, or ``None``.
        should_lines: for each violated ``should`` its witness as text, not part of the JSON.
        repeats: what each repeat came to, in order; empty where it was played once.
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
