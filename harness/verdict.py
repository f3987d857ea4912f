"""Statuses, how verdicts merge, what ``known`` predicts, and the exit codes. All pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.scenario.model import Known

HELD, VIOLATED, NOT_JUDGED, ERROR = "held", "violated", "not_judged", "error"
UNSTABLE = "unstable"
"""Status of a scenario whose repeats differ: neither kept nor broken can be relied on."""
EXPECTATION = "expectation"
"""What ``known.invariant`` names when an expectation of the scenario itself fails."""
_RANK = {NOT_JUDGED: 0, HELD: 1, VIOLATED: 2}


class ExitCode(enum.IntEnum):
    """Exit codes of every command."""

    OK = 0
    """No violation and at least one held; a replay that is no longer violated."""
    VIOLATION = 1
    USAGE = 2
    """Bad input, wrong use, or nothing selected."""
    HARNESS = 3
    """The target or the harness failed."""
    NOT_JUDGED = 4
    """Nothing could be judged; a replay that diverged."""
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    """Whoever read the output went away (``| head``): 128 + SIGPIPE, as of any other program."""


def is_worse(second: VerdictResult, first: VerdictResult) -> bool:
    """Whether ``second`` wins over ``first``, which came before it."""
    return second.verdict != first.verdict and _RANK[second.verdict] > _RANK[first.verdict]


def merge_verdicts(first: VerdictResult, second: VerdictResult) -> VerdictResult:
    """Merge one invariant's verdicts of two schedules: the worst wins, occurrences add up.

    Of two equal verdicts the first keeps its message and witness.
    """
    worst = second if is_worse(second, first) else first
    if worst is first and not second.exercised:
        return first  # most invariants concern nothing in most scenarios
    return replace(worst, exercised=first.exercised + second.exercised)


def merge_all(runs: Iterable[Sequence[VerdictResult]]) -> tuple[VerdictResult, ...]:
    """Merge the verdicts of all schedules, sorted by invariant id."""
    merged: dict[str, VerdictResult] = {}
    for run in runs:
        for verdict in run:
            seen = merged.get(verdict.invariant)
            merged[verdict.invariant] = verdict if seen is None else merge_verdicts(seen, verdict)
    return tuple(merged[name] for name in sorted(merged))


def merge_expectations(
    runs: Iterable[Sequence[ExpectationResult]],
) -> tuple[ExpectationResult, ...]:
    """Merge the expectations of all schedules: for each step the worst, the first of equals."""
    merged: dict[int, ExpectationResult] = {}
    for run in runs:
        for result in run:
            seen = merged.get(result.step)
            if seen is None or _RANK[result.status] > _RANK[seen.status]:
                merged[result.step] = result
    return tuple(merged[step] for step in sorted(merged))


def status_of(
    error: str | None,
    expectations: Iterable[ExpectationResult],
    verdicts: Iterable[VerdictResult],
    *,
    own_invariants: Iterable[str] = (),
) -> str:
    """The status of one scenario.

    ``error`` if it could not be judged through a fault of ours or of the target's start; else
    ``violated`` if a ``must`` verdict or an expectation is; else ``held`` if what it expects
    itself was exercised (an expectation, or an invariant that it names); else ``not_judged``.
    """
    if error is not None:
        return ERROR
    expected, judged, own = list(expectations), list(verdicts), set(own_invariants)
    if any(e.status == VIOLATED for e in expected):
        return VIOLATED
    if any(v.verdict == VIOLATED and v.level == "must" for v in judged):
        return VIOLATED
    if any(e.status == HELD for e in expected):
        return HELD
    if any(v.verdict == HELD and v.invariant in own for v in judged):
        return HELD
    return NOT_JUDGED


def why_not_judged(result: ScenarioResult) -> str:
    """Why a scenario was not judged: the reasons of its expectations, else of its verdicts."""
    if result.reason:
        return result.reason
    expected = [
        f"step {e.step}: {e.expected} ({e.seen})"
        for e in result.expectations
        if e.status == NOT_JUDGED
    ]
    if expected:
        return "; ".join(dict.fromkeys(expected))
    reasons = [v.reason for v in result.verdicts if v.verdict == NOT_JUDGED and v.reason]
    unique = list(dict.fromkeys(reasons))
    return "; ".join(unique[:3]) or "nothing that it expects was exercised"


# --- known faults ---------------------------------------------------------------------------


def predicted(known: Iterable[Known], release: Version, target: str = "vllm-rs") -> tuple[str, ...]:
    """What ``known`` entries predict for a release: ``introduced_in ≤ release < fixed_in``.

    ``target``: whose release it is, ``""`` for ours; entries of another target predict nothing,
    but those of the protocol predict something for all.
    """
    return tuple(dict.fromkeys(entry.invariant for entry in applying(known, release, target)))


def applying(known: Iterable[Known], release: Version, target: str) -> list[Known]:
    """The ``known`` entries that speak of a release of this target."""
    return [
        entry
        for entry in known
        if entry.target in {target, "protocol"}
        and (entry.introduced_in is None or Version(entry.introduced_in) <= release)
        and (entry.fixed_in is None or release < Version(entry.fixed_in))
    ]


def reasons_of(known: Iterable[Known]) -> tuple[tuple[str, str], ...]:
    """For each invariant of ``known`` entries whose fault it is, and where one reads of it."""
    told: dict[str, str] = {}
    for entry in known:
        whose = "the protocol, whoever follows it" if entry.target == "protocol" else entry.target
        told.setdefault(entry.invariant, f"a fault of {whose}: {entry.reason} ({entry.link})")
    return tuple(told.items())


def most_telling(
    verdicts: Iterable[VerdictResult], preferred: Iterable[str] = ()
) -> list[VerdictResult]:
    """Violated verdicts, the most telling first.

    ``must`` comes before ``should``, and what the run is about (``preferred``: the invariant that
    kills the mutant, those that the scenario names, in this order) before what only follows.
    """
    order = {name: rank for rank, name in reversed(list(enumerate(preferred)))}
    return sorted(
        (v for v in verdicts if v.verdict == VIOLATED),
        key=lambda v: (v.level != "must", order.get(v.invariant, len(order)), v.invariant),
    )


@dataclass(frozen=True, slots=True)
class Assessment:
    """A result against its predictions.

    Attributes:
        known: violations that are predicted.
        unknown: violations that are not.
        blind: predicted, could be judged, and not seen: our detector, or the fault, is gone.
        should: violated ``should`` invariants that are not predicted.
    """

    known: tuple[str, ...]
    unknown: tuple[str, ...]
    blind: tuple[str, ...]
    should: tuple[str, ...]


def assess(result: ScenarioResult) -> Assessment:
    """Sort the violations of a result by whether ``known`` predicts them."""
    broken = [v for v in result.verdicts if v.verdict == VIOLATED]
    must = [v.invariant for v in broken if v.level == "must"]
    should = [v.invariant for v in broken if v.level != "must"]
    if any(e.status == VIOLATED for e in result.expectations):
        must.append(EXPECTATION)
    seen = {*must, *should}
    # Of a run that broke off nothing is known to be missing.
    judged = result.status in {HELD, VIOLATED, UNSTABLE} and result.error is None
    return Assessment(
        known=tuple(name for name in [*must, *should] if name in result.known),
        unknown=tuple(name for name in must if name not in result.known),
        blind=tuple(name for name in result.known if judged and name not in seen),
        should=tuple(name for name in should if name not in result.known),
    )


def is_known(result: ScenarioResult) -> bool:
    """Whether a result is violated, and only where ``known`` predicts it."""
    found = assess(result)
    return result.status == VIOLATED and bool(found.known) and not found.unknown


# --- exit codes -----------------------------------------------------------------------------


def counts(result: ScenarioResult, *, allow_known: bool, strict: bool) -> bool:
    """Whether a result makes the run end with exit code 1.

    ``allow_known``: predicted violations do not count, and predicted ones that are missing do.
    ``strict``: what could not be judged counts, and violated ``should`` invariants.
    What differs between repeats counts always.
    """
    if result.status == ERROR:
        return False
    if result.status == UNSTABLE:
        return True
    found = assess(result)
    if strict and (result.status == NOT_JUDGED or found.should):
        return True
    if allow_known:
        return bool(found.unknown or found.blind)
    return result.status == VIOLATED


def exit_code(
    results: Sequence[ScenarioResult],
    *,
    allow_known: bool = False,
    strict: bool = False,
    interrupted: bool = False,
) -> ExitCode:
    """The exit code of a run.

    An interruption comes first. A violation stands whatever else failed, so it comes before
    errors; a run in which nothing was held or violated could not be judged, strict or not.
    """
    if interrupted:
        return ExitCode.INTERRUPTED
    if not results:
        return ExitCode.USAGE
    statuses = {result.status for result in results}
    judged = statuses & {HELD, VIOLATED}
    counted = [r for r in results if counts(r, allow_known=allow_known, strict=strict)]
    if any(r.status != NOT_JUDGED for r in counted):
        return ExitCode.VIOLATION
    if ERROR in statuses:
        return ExitCode.HARNESS
    if not judged:
        return ExitCode.NOT_JUDGED
    return ExitCode.VIOLATION if counted else ExitCode.OK


@dataclass(frozen=True, slots=True)
class Summary:
    """Scenarios by status. ``known`` are those of ``violated`` that are all predicted."""

    held: int
    violated: int
    known: int
    not_judged: int
    error: int
    exit: int
    unstable: int = 0


def summarise(results: Sequence[ScenarioResult], code: ExitCode) -> Summary:
    """Count results by status."""
    statuses = [result.status for result in results]
    return Summary(
        held=statuses.count(HELD),
        violated=statuses.count(VIOLATED),
        known=sum(1 for result in results if is_known(result)),
        not_judged=statuses.count(NOT_JUDGED),
        error=statuses.count(ERROR),
        exit=int(code),
        unstable=statuses.count(UNSTABLE),
    )
