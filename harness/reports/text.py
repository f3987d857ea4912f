"""Results for people: a line for each scenario, a screen for each violation, a summary."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from harness.evidence import LINES_MAX, cut, evidence_of
from harness.reports.diagnostic import Diagnostic, Excerpt
from harness.reports.wording import order_lines
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

_STYLES = {
    HELD: "green",
    VIOLATED: "bold red",
    NOT_JUDGED: "yellow",
    ERROR: "bold magenta",
    UNSTABLE: "bold red",
    "known": "yellow",
    "blind": "bold red",
    "waived": "yellow",
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


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a scenario stands.

    Attributes:
        file: as the user named it; the id of a built-in scenario.
        steps: line and column of each step, from 1.
        lines: of the file.
        builtin: the file belongs to us, and so has no place among the user's.
    """

    file: str
    steps: tuple[tuple[int, int], ...] = ()
    lines: tuple[str, ...] = ()
    builtin: bool = False

    def at(self, step: int | None) -> str:
        """``file``, or ``file:line:column`` of a step."""
        if self.builtin or step is None or not 0 <= step < len(self.steps):
            return self.file
        line, column = self.steps[step]
        return f"{self.file}:{line}:{column}"

    def excerpt(self, step: int) -> Excerpt | None:
        """The line of a step, where it is known."""
        if not 0 <= step < len(self.steps):
            return None
        line, column = self.steps[step]
        if not 0 < line <= len(self.lines):
            return None
        return Excerpt(line, column, self.lines[line - 1])


def label(result: ScenarioResult, *, allow_known: bool) -> str:
    """The word for a result: its status, or ``known`` / ``blind`` where that is asked for."""
    if allow_known:
        if is_known(result) and not assess(result).blind:
            return "known"
        if result.status == HELD and assess(result).blind:
            return "blind"
    return result.status


def result_line(result: ScenarioResult, *, allow_known: bool = False, word: str = "") -> Text:
    """One line: status, id, profile, how much was played, and why not, where it was not.

    ``word``: what it is, where that is not its status.
    """
    word = word or label(result, allow_known=allow_known)
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
    if result.explored:
        out.append(f"\n{'':<{_WIDTH}} {result.explored}", "dim")
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
    origin: Origin | None = None,
) -> list[Diagnostic]:
    """At most one message on the violations of a result or its error, and what it was blind to.

    The message is about the most telling violated ``must`` (see ``verdict.most_telling``), since
    its statement says what broke; then an expectation, then, if ``strict``, a ``should``. One
    that ``known`` does not predict comes before one that it does. The others are mostly
    consequences, and are listed below it. ``origin``: the file, where it is the user's own.
    """
    if result.status == ERROR:
        return [_error(result, origin)]
    found = _violations(result, doc, preferred, origin)
    found.sort(key=lambda diagnostic: diagnostic.level == "known")
    if result.status not in {VIOLATED, UNSTABLE} and not strict:
        found = []
    if found:
        also = tuple(
            f"{d.code}: {d.title}"
            if d.code != EXPECTATION
            else f"{d.title} (expected {_flat(d.expected)}; seen {_flat(d.seen)})"
            for d in found[1:]
        )
        found = [replace(found[0], also=also)]
    if result.status == VIOLATED and result.error is not None:
        title = f"after the violation was seen: {result.error}"
        found.append(Diagnostic("note", title, where=_where(result, origin)))
    if allow_known:
        found += [_blind(result, name) for name in assess(result).blind]
    return found


def _flat(value: str) -> str:
    """Several lines as one."""
    return "; ".join(line.strip() for line in value.splitlines())


def _violations(
    result: ScenarioResult, doc: InvariantDoc, preferred: Sequence[str], origin: Origin | None
) -> list[Diagnostic]:
    broken = most_telling(result.verdicts, preferred)
    must = [v for v in broken if v.level == "must"]
    should = [v for v in broken if v.level != "must"]
    steps = [e for e in result.expectations if e.status == VIOLATED]
    ends = [e for e in steps if e.frontend_ended]
    others = [e for e in steps if not e.frontend_ended]
    return [
        *(_frontend_ended(result, end, origin) for end in ends),
        *(_verdict(result, v, doc(v.invariant), origin) for v in must),
        *(_expectation(result, step, origin, own_witness=not must) for step in others),
        *(_verdict(result, v, doc(v.invariant), origin) for v in should),
    ]


def _where(result: ScenarioResult, origin: Origin | None = None, step: int | None = None) -> str:
    mutant = f"mutant {result.mutant}" if result.mutant is not None else ""
    profile = f"profile {result.profile}" if result.profile else ""
    what = ", ".join(part for part in (profile, mutant) if part)
    name = result.scenario if origin is None else origin.at(step)
    return f"{name} ({what})" if what else name


def replay_command(failure_file: str) -> str:
    """The command that replays a failure, to be pasted into a shell; the file holds the rest."""
    return f"wavecheck replay {shlex.quote(failure_file)}"


def _replay(result: ScenarioResult) -> str:
    if result.failure_file_error:
        return f"no failure file to replay: {result.failure_file_error}; see --out"
    return replay_command(result.failure_file) if result.failure_file else ""


def _order(result: ScenarioResult) -> tuple[tuple[str, str], ...]:
    """The order of events in which it broke, where it is known."""
    if result.departures is None:
        return ()
    return (("order", "\n".join(order_lines(result.departures))),)


def _known(result: ScenarioResult, name: str) -> tuple[tuple[str, str], ...]:
    """Why it is known to break, where it is."""
    because = dict(result.known_because).get(name)
    return () if because is None else (("known", because),)


def _verdict(
    result: ScenarioResult, verdict: VerdictResult, doc: Mapping[str, str], origin: Origin | None
) -> Diagnostic:
    known = verdict.invariant in result.known
    return Diagnostic(
        "known" if known else "violated",
        verdict.message,
        code=verdict.invariant,
        where=_where(result, origin),
        facts=(("statement", doc.get("statement", "")),)
        + ((("level", "should"),) if verdict.level == "should" else ())
        + _known(result, verdict.invariant)
        + _order(result),
        expected=verdict.expected,
        seen=verdict.seen,
        evidence=evidence_of(result, verdict),
        why=doc.get("reason", ""),
        source=doc.get("source", ""),
        help=_replay(result),
    )


def _expectation(
    result: ScenarioResult,
    expectation: ExpectationResult,
    origin: Origin | None,
    *,
    own_witness: bool,
) -> Diagnostic:
    known = EXPECTATION in result.known
    return Diagnostic(
        "known" if known else "violated",
        expectation.title,
        code=EXPECTATION,
        where=_where(result, origin, expectation.step),
        excerpt=None if origin is None else origin.excerpt(expectation.step),
        facts=(("title", result.title), *_known(result, EXPECTATION), *_order(result)),
        expected=expectation.expected,
        seen=expectation.seen,
        evidence=cut(result.witness_lines) if own_witness else (),
        source=", ".join(result.refs),
        help=_replay(result),
    )


def _frontend_ended(
    result: ScenarioResult, expectation: ExpectationResult, origin: Origin | None
) -> Diagnostic:
    """The frontend's own last words are the evidence."""
    seen, *last_lines = expectation.seen.splitlines()
    told = _expectation(result, expectation, origin, own_witness=False)
    return replace(told, seen=seen, evidence=tuple(last_lines))


def _error(result: ScenarioResult, origin: Origin | None) -> Diagnostic:
    return Diagnostic(
        "error",
        result.error or "the run could not be judged",
        where=_where(result, origin),
        evidence=result.witness_lines[:LINES_MAX],
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
    meaning: str = "",
) -> Text:
    """Counts of scenarios by status, and what the exit code says.

    ``meaning``: of the exit code, where it does not follow from the statuses alone.
    """
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
    if meaning:
        out.append(f"; exit {summary.exit}: {meaning}")
        return out
    meaning = _MEANING[code]
    if code is ExitCode.OK and summary.known:
        meaning = "no violation but known ones"
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
