"""Results for people: a line for each scenario, a screen for each violation, a summary."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rich.text import Text

from harness.reports.diagnostic import Diagnostic
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.verdict import (
    ERROR,
    EXPECTATION,
    HELD,
    NOT_JUDGED,
    UNSTABLE,
    VIOLATED,
    ExitCode,
    assess,
    is_known,
    most_telling,
    summarise,
    why_not_judged,
)

InvariantDoc = Callable[[str], Mapping[str, str]]
"""Parts of an invariant's docstring by its id: statement, reason, source, limits."""

WITNESS_LINES_MAX = 30
"""Events of one violation that are shown; the failure file holds all."""

_STYLES = {
    HELD: "green",
    VIOLATED: "bold red",
    NOT_JUDGED: "yellow",
    ERROR: "bold magenta",
    UNSTABLE: "bold red",
    "known": "yellow",
    "blind": "bold red",
}
_WIDTH = 10
_MEANING = {
    ExitCode.OK: "no violation",
    ExitCode.VIOLATION: "violated",
    ExitCode.USAGE: "nothing to run",
    ExitCode.HARNESS: "the target or the harness failed",
    ExitCode.NOT_JUDGED: "nothing could be judged",
    ExitCode.INTERRUPTED: "interrupted; results so far",
}


def label(result: ScenarioResult, *, allow_known: bool) -> str:
    """The word for a result: its status, or ``known`` / ``blind`` where that is asked for."""
    if allow_known:
        if is_known(result) and not assess(result).blind:
            return "known"
        if result.status == HELD and assess(result).blind:
            return "blind"
    return result.status


def result_line(result: ScenarioResult, *, allow_known: bool = False) -> Text:
    """One line: status, id, profile, how much was played, and why not, where it was not."""
    word = label(result, allow_known=allow_known)
    out = Text()
    out.append(f"{word.replace('_', ' '):<{_WIDTH}}", _STYLES[word])
    out.append(f" {result.scenario}", "bold")
    out.append(f"  {result.profile}", "dim")
    if result.mutant is not None:
        out.append(f"  mutant {result.mutant}", "dim")
    played = [
        f"{count} {noun}"
        for count, noun in (
            (len(result.repeats), "repeats"),
            (result.schedules, "schedules"),
            (result.trials, "trials"),
        )
        if count > 1
    ]
    out.append(f"  ({', '.join([*played, f'{result.duration_s:.2f} s'])})", "dim")
    if result.status == NOT_JUDGED:
        out.append(f"\n{'':<{_WIDTH}} {why_not_judged(result)}", "dim")
    if result.status == UNSTABLE:
        out.append(f"\n{'':<{_WIDTH}} {result.reason}", "bold red")
    if result.status != VIOLATED:
        for name in assess(result).should:
            out.append(f"\n{'':<{_WIDTH}} {name} (should) is violated; --strict counts it", "dim")
    return out


def diagnostics(
    result: ScenarioResult,
    doc: InvariantDoc,
    *,
    allow_known: bool = False,
    strict: bool = False,
    preferred: Sequence[str] = (),
) -> list[Diagnostic]:
    """At most one message on the violations of a result or its error, and what it was blind to.

    The message is about the most telling violated ``must`` (see ``verdict.most_telling``), since
    its statement says what broke; then an expectation, then, if ``strict``, a ``should``. One
    that ``known`` does not predict comes before one that it does. The others are mostly
    consequences, and are listed below it.
    """
    if result.status == ERROR:
        return [_error(result)]
    found = _violations(result, doc, preferred)
    found.sort(key=lambda diagnostic: diagnostic.level == "known")
    if result.status not in {VIOLATED, UNSTABLE} and not strict:
        found = []
    if found:
        also = tuple(
            f"{d.code}: {d.title}"
            if d.code != EXPECTATION
            else f"{d.title} (expected {d.expected}; seen {d.seen})"
            for d in found[1:]
        )
        found = [replace(found[0], also=also)]
    if allow_known:
        found += [_blind(result, name) for name in assess(result).blind]
    return found


def _violations(
    result: ScenarioResult, doc: InvariantDoc, preferred: Sequence[str]
) -> list[Diagnostic]:
    broken = most_telling(result.verdicts, preferred)
    must = [v for v in broken if v.level == "must"]
    should = [v for v in broken if v.level != "must"]
    steps = [e for e in result.expectations if e.status == VIOLATED]
    return [
        *(_verdict(result, v, doc(v.invariant)) for v in must),
        *(_expectation(result, step, own_witness=not must) for step in steps),
        *(_verdict(result, v, doc(v.invariant)) for v in should),
    ]


def _where(result: ScenarioResult) -> str:
    mutant = f"mutant {result.mutant}" if result.mutant is not None else ""
    profile = f"profile {result.profile}" if result.profile else ""
    what = ", ".join(part for part in (profile, mutant) if part)
    return f"{result.scenario} ({what})" if what else result.scenario


def replay_command(failure_file: str) -> str:
    """The command that replays a failure, to be pasted into a shell; the file holds the rest."""
    return f"wavecheck replay {shlex.quote(failure_file)}"


def _replay(result: ScenarioResult) -> str:
    if result.failure_file_error:
        return f"no failure file to replay: {result.failure_file_error}; see --out"
    return replay_command(result.failure_file) if result.failure_file else ""


def _evidence(result: ScenarioResult, verdict: VerdictResult) -> tuple[str, ...]:
    """The lines of the events that a verdict names, or their numbers where they are not there."""
    if (own := dict(result.should_lines).get(verdict.invariant)) is not None:
        return _cut(own)
    numbers = [f"#{seq}" for seq in verdict.witness]
    lines = tuple(line for line in result.witness_lines if line.partition(" ")[0] in numbers)
    return _cut(lines or tuple(numbers))


def _cut(lines: tuple[str, ...]) -> tuple[str, ...]:
    if (more := len(lines) - WITNESS_LINES_MAX) > 0:
        return (*lines[:WITNESS_LINES_MAX], f"... and {more} more events, in the failure file")
    return lines


def _verdict(result: ScenarioResult, verdict: VerdictResult, doc: Mapping[str, str]) -> Diagnostic:
    known = verdict.invariant in result.known
    return Diagnostic(
        "known" if known else "violated",
        verdict.message,
        code=verdict.invariant,
        where=_where(result),
        facts=(("statement", doc.get("statement", "")),)
        + ((("level", "should"),) if verdict.level == "should" else ()),
        expected=verdict.expected,
        seen=verdict.seen,
        evidence=_evidence(result, verdict),
        why=doc.get("reason", ""),
        source=doc.get("source", ""),
        help=_replay(result),
    )


def _expectation(
    result: ScenarioResult, expectation: ExpectationResult, *, own_witness: bool
) -> Diagnostic:
    known = EXPECTATION in result.known
    return Diagnostic(
        "known" if known else "violated",
        f"step {expectation.step} of the scenario did not see what it expects",
        code=EXPECTATION,
        where=_where(result),
        facts=(("title", result.title),),
        expected=expectation.expected,
        seen=expectation.seen,
        evidence=_cut(result.witness_lines) if own_witness else (),
        source=", ".join(result.refs),
        help=_replay(result),
    )


def _error(result: ScenarioResult) -> Diagnostic:
    return Diagnostic(
        "error",
        result.error or "the run could not be judged",
        where=_where(result),
        evidence=result.witness_lines[:WITNESS_LINES_MAX],
        help=_replay(result),
    )


def _blind(result: ScenarioResult, name: str) -> Diagnostic:
    return Diagnostic(
        "blind",
        f"{result.profile} is known to violate {name}, and this run did not see it",
        code=name,
        where=_where(result),
        expected=f"{name} violated, as `known` in the scenario says",
        seen="not violated",
        help="if the release is fixed, set fixed_in in the scenario; else the detector is gone",
    )


def summary_line(
    results: Sequence[ScenarioResult],
    code: ExitCode,
    *,
    allow_known: bool = False,
    strict: bool = False,
) -> Text:
    """Counts of scenarios by status, and what the exit code says."""
    summary = summarise(results, code)
    parts = [
        (summary.held, "held", HELD),
        (summary.violated, "violated", VIOLATED),
        (summary.not_judged, "not judged", NOT_JUDGED),
        (summary.error, "error", ERROR),
    ]
    out = Text()
    for count, word, status in parts:
        if out:
            out.append(", ")
        out.append(f"{count} {word}", _STYLES[status] if count else "")
        if word == "violated" and summary.known:
            out.append(f" ({summary.known} known)")
    if summary.unstable:
        out.append(f", {summary.unstable} unstable", _STYLES[UNSTABLE])
    meaning = _MEANING[code]
    if code is ExitCode.VIOLATION:
        meaning = _what_counts(results, allow_known=allow_known, strict=strict)
    out.append(f"; exit {summary.exit}: {meaning}")
    return out


def _what_counts(results: Sequence[ScenarioResult], *, allow_known: bool, strict: bool) -> str:
    """What makes a run end with exit code 1, where it is more than a violated scenario."""
    found = [assess(result) for result in results]
    violated = any(
        result.status == VIOLATED and (one.unknown or not allow_known)
        for result, one in zip(results, found, strict=True)
    )
    parts = ["violated"] if violated else []
    if unstable := sum(result.status == UNSTABLE for result in results):
        parts.append(f"{unstable} unstable")
    if allow_known and (blind := sum(len(one.blind) for one in found)):
        parts.append(f"{blind} known violation{'s' if blind > 1 else ''} not seen (--allow-known)")
    if strict and (should := sum(len(one.should) for one in found)):
        parts.append(f"{should} should-rule{'s' if should > 1 else ''} violated (--strict)")
    if strict and (open_ := sum(result.status == NOT_JUDGED for result in results)):
        parts.append(f"{open_} not judged (--strict)")
    return ", ".join(parts) or _MEANING[ExitCode.VIOLATION]
