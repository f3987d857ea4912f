"""The results of ``wavecheck run`` as a report."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from harness.baseline.gate import Found, Kind, meaning
from harness.baseline.ruling import WAIVED, Rule, Ruling, by_result, ruling
from harness.evidence import numbers_of
from harness.failure import FailureFile
from harness.mutants import discover as discover_mutants
from harness.reports.diagnostic import Diagnostic
from harness.reports.inputs.documents import BaselineObject, ResultObject, RunDocument
from harness.reports.inputs.failures import Doc, Tracing, with_trace, witness_lines
from harness.reports.text import diagnostics, label, summary_line
from harness.reports.told.model import Report, Result, Violation
from harness.reports.wording import counted
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.verdict import (
    ERROR,
    HELD,
    NOT_JUDGED,
    UNSTABLE,
    VIOLATED,
    ExitCode,
    assess,
    why_not_judged,
)
from harness.version import tool_version

NOTES_MAX = 20
"""Findings of a baseline that are named; the JSON has them all."""
TOLD = frozenset({VIOLATED, UNSTABLE, ERROR})
"""Statuses that are told at length."""


def result_of(told: ResultObject) -> ScenarioResult:
    """A result as the run had it, but for what is not in its JSON."""
    plain = msgspec.structs.asdict(told)
    plain |= {
        "refs": tuple(told.refs),
        "known": tuple(told.known),
        "expectations": tuple(
            ExpectationResult(e.step, e.status, e.expected, e.seen) for e in told.expectations
        ),
        "verdicts": tuple(
            VerdictResult(**{**msgspec.structs.asdict(v), "witness": tuple(v.witness)})
            for v in told.verdicts
        ),
        "repeats": tuple(told.repeats),
        "departures": None if told.departures is None else tuple(told.departures),
    }
    return ScenarioResult(**plain)


class RunReport:
    """Makes the report on one document.

    Attributes:
        results: as the run had them, with the lines of their witnesses.
        preferred: for each of them what it is about first.
    """

    def __init__(self, document: RunDocument, source: Path, doc: Doc, tracing: Tracing) -> None:
        self._document = document
        self._source = source
        self._doc = doc
        self._tracing = tracing
        found = [self._with_lines(result_of(told)) for told in document.results]
        self.results: list[ScenarioResult] = [result for result, _ in found]
        self.preferred: list[list[str]] = [
            _about(result) if failure is None else [failure.violated] for result, failure in found
        ]
        self.target = document.target.kind
        self.rule: Rule | None = None if document.baseline is None else _rule(document.baseline)
        self._violations: list[Violation] = []

    def _with_lines(self, result: ScenarioResult) -> tuple[ScenarioResult, FailureFile | None]:
        _, failure, _ = self._tracing.named(result.failure_file, self._source)
        if failure is None:
            return result, None
        numbers = [n for v in result.verdicts if v.verdict == VIOLATED for n in v.witness]
        lines = witness_lines(failure, [*numbers, *failure.witness])
        return replace(result, witness_lines=lines), failure

    def only(self, scenario: str) -> RunReport:
        """The part about one scenario."""
        part = copy.copy(self)
        pairs = zip(self.results, self.preferred, strict=True)
        kept = [(result, names) for result, names in pairs if result.scenario == scenario]
        part.results = [result for result, _ in kept]
        part.preferred = [names for _, names in kept]
        return part

    def messages(self, place: int) -> Sequence[Diagnostic]:
        """What the terminal said of a result."""
        return diagnostics(
            self.results[place],
            self._doc,
            allow_known=self._document.allow_known,
            strict=self._document.strict,
            preferred=self.preferred[place],
        )

    def report(self) -> Report:
        """All of it."""
        document, code = self._document, ExitCode(self._document.summary.exit)
        results = [self._result(place, told) for place, told in enumerate(self.results)]
        summary = summary_line(
            self.results,
            code,
            allow_known=document.allow_known,
            strict=document.strict,
            meaning="" if document.baseline is None else meaning(document.baseline.words, code),
        )
        target = document.target
        return Report(
            form="run",
            tool=tool_version(),
            source=str(self._source),
            headline=f"{counted(len(results), 'scenario')} on {target.kind} {target.version}",
            verdict=summary.plain,
            exit=int(code),
            target=f"{target.kind} {target.version}",
            counts=_counts(results),
            results=results,
            violations=self._violations,
            not_run=list(document.not_run),
            notes=_notes(document.baseline),
        )

    def _result(self, place: int, result: ScenarioResult) -> Result:
        ruled = Ruling() if self.rule is None else self.rule(result)
        word = label(result, allow_known=self._document.allow_known)
        word = WAIVED if ruled.waived else word
        number = None
        messages = self.messages(place)
        if (result.status in TOLD or messages) and messages:
            number = len(self._violations)
            self._violations.append(self._violation(result, messages[0]))
        return Result(
            scenario=result.scenario,
            title=result.title,
            column=result.profile,
            status=word,
            mutant=result.mutant,
            detail=ruled.waived or self._detail(result, messages),
            schedules=result.schedules,
            trials=result.trials,
            duration_s=result.duration_s,
            violation=number,
        )

    def _detail(self, result: ScenarioResult, messages: Sequence[Diagnostic]) -> str:
        if messages:
            return messages[0].title.partition("\n")[0]
        if result.status == NOT_JUDGED:
            return why_not_judged(result)
        should = assess(result).should
        return f"{', '.join(should)} (should) violated" if should else result.explored

    def _level(self, result: ScenarioResult, message: Diagnostic) -> str:
        if self.rule is not None and self.rule(result).waived:
            return WAIVED
        return UNSTABLE if result.status == UNSTABLE else message.level

    def _violation(self, result: ScenarioResult, message: Diagnostic) -> Violation:
        facts = dict(message.facts)
        violation = Violation(
            scenario=result.scenario,
            title=result.title,
            level=self._level(result, message),
            code=message.code,
            message=message.title,
            settings=_settings(self._document, result),
            statement=facts.get("statement", ""),
            why=message.why,
            source=message.source,
            expected=message.expected,
            seen=message.seen,
            also=list(message.also),
            order=None if result.departures is None else facts.get("order", "").splitlines(),
            evidence=list(message.evidence),
            witness=list(numbers_of(message.evidence)),
            failure_file=result.failure_file or "",
            replay=message.help if message.help.startswith("wavecheck replay ") else "",
        )
        if result.status == ERROR and result.failure_file is None:
            return msgspec.structs.replace(violation, trace_missing="it could not be judged")
        own = violation.witness
        told = with_trace(violation, self._tracing, result.failure_file, self._source)
        known = set() if told.trace is None else {event.seq for event in told.trace.events}
        # The message may be about another promise than the failure file is.
        if own and known and set(own) <= known:
            told = msgspec.structs.replace(told, witness=own)
        return told


def _rule(baseline: BaselineObject) -> Rule:
    """What the baseline made of each result, as the run says it."""
    found: dict[tuple[str, str], list[tuple[Found, bool]]] = {}
    for told in baseline.found:
        one = Found(
            Kind(told.kind), told.scenario, told.target, told.release, told.invariant, told.text
        )
        if one.kind is not Kind.STALE:
            found.setdefault((told.scenario, told.release), []).append((one, told.counts))
    return by_result({key: ruling(ones) for key, ones in found.items()})


def _notes(baseline: BaselineObject | None) -> list[str]:
    """What counts or is stale, with the baseline it is measured by."""
    if baseline is None:
        return []
    told = [one for one in baseline.found if one.counts or one.kind == Kind.STALE]
    lines = [f"{one.kind}: {one.scenario} {one.invariant}: {one.text}" for one in told]
    return [f"baseline {baseline.file} on {baseline.today}: {baseline.words}", *lines[:NOTES_MAX]]


def _about(result: ScenarioResult) -> list[str]:
    """What a run with a mutant is about, where no failure file says it."""
    return [mutant.killed_by for mutant in discover_mutants() if mutant.id == result.mutant]


def _settings(document: RunDocument, result: ScenarioResult) -> list[str]:
    told = [f"target {document.target.kind}", f"profile {result.profile}"]
    return told if result.mutant is None else [*told, f"mutant {result.mutant}"]


def _counts(results: Sequence[Result]) -> dict[str, int]:
    found = Counter(result.status for result in results)
    order = (VIOLATED, UNSTABLE, ERROR, "blind", WAIVED, "known", NOT_JUDGED, HELD)
    return {status: found[status] for status in order if found[status]}
