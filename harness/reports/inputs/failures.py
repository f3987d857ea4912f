"""Failure files as violations with their events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from harness.evidence import cut
from harness.failure import FailureFile, FailureFileError, read_failure
from harness.reports.inputs.files import Given, find_failure
from harness.reports.text import replay_command
from harness.reports.told.model import Report, Result, Violation
from harness.reports.told.traces import Found, trace_of
from harness.reports.wording import counted, order_lines
from harness.results import ExpectationResult
from harness.scenario.loader import parse
from harness.scenario.model import Scenario
from harness.scenario.problems import ScenarioFileError
from harness.shrink.promise import Promise
from harness.verdict import EXPECTATION, VIOLATED, ExitCode
from harness.version import tool_version

EVENTS_TOTAL = 60_000
"""Events of all traces of one report; violations beyond have none, and say so."""

Doc = Callable[[str], Mapping[str, str]]
Progress = Callable[[str], None]


@dataclass(slots=True)
class Tracing:
    """Gets traces, as long as there is room for them.

    Attributes:
        wanted: whether events are wanted at all; some exports have no use for them.
        progress: told what is played again.
    """

    wanted: bool = True
    progress: Progress = lambda _line: None
    _room: int = field(default=EVENTS_TOTAL)

    def of(self, path: Path, failure: FailureFile) -> tuple[Found | None, str]:
        """The events of a failure, or why there are none."""
        if not self.wanted:
            return None, ""
        if self._room <= 0:
            return None, (
                f"the report holds {EVENTS_TOTAL:,} events already; make one of this failure "
                "file alone"
            )
        self.progress(f"playing {failure.scenario_id} again")
        found = trace_of(path, failure)
        self._room -= len(found.trace.events)
        return found, ""

    def named(self, named: str | None, source: Path) -> tuple[Path | None, FailureFile | None, str]:
        """Find and read the failure file that a document names, or say why not."""
        if not named:
            return None, None, "no failure file was written"
        path = find_failure(named, source)
        if path is None:
            return None, None, f"its failure file is not there: {named}"
        try:
            return path, read_failure(path), ""
        except FailureFileError as error:
            return path, None, str(error)


def with_trace(
    violation: Violation, tracing: Tracing, named: str | None, source: Path
) -> Violation:
    """Add the events of the failure file that a document names."""
    path, failure, missing = tracing.named(named, source)
    if path is None or failure is None:
        return replace(violation, trace_missing=missing)
    found, missing = tracing.of(path, failure)
    violation = replace(violation, settings=failure.settings)
    if found is None:
        return replace(violation, trace_missing=missing)
    return replace(violation, trace=found.trace, witness=list(found.witness))


def failures_report(given: Given, doc: Doc, tracing: Tracing) -> Report:
    """The report on one failure file, or on all in a folder."""
    violations = [_violation(path, failure, doc, tracing) for path, failure in given.failures]
    results = [
        Result(
            scenario=failure.scenario_id,
            title=violation.title,
            column=failure.frontend or failure.profile,
            status=VIOLATED,
            mutant=failure.mutant,
            detail=violation.message,
            violation=number,
        )
        for number, ((_, failure), violation) in enumerate(
            zip(given.failures, violations, strict=True)
        )
    ]
    many = counted(len(violations), "failure file")
    only = violations[0] if len(violations) == 1 else None
    return Report(
        form=given.kind,
        tool=tool_version(),
        source=str(given.path),
        headline=only.scenario if only is not None else many,
        verdict=only.message if only is not None else counted(len(violations), "violation"),
        exit=int(ExitCode.VIOLATION),
        target=", ".join(only.settings) if only is not None else "",
        counts={VIOLATED: len(violations)},
        results=results,
        violations=violations,
        notes=list(given.notes),
    )


def _violation(path: Path, failure: FailureFile, doc: Doc, tracing: Tracing) -> Violation:
    found, missing = tracing.of(path, failure)
    scenario = _scenario(failure, path)
    step = Promise(failure.violated).step
    parts = doc(failure.violated) if step is None else {}
    message = found.message if found is not None else ""
    if not message or message == failure.violated:
        message = f"{failure.violated} is violated"
    if step is not None:
        asked, seen = ("", "") if found is None else (found.expected, found.seen)
        message = ExpectationResult(step, VIOLATED, asked, seen).title
    return Violation(
        scenario=failure.scenario_id,
        title=failure.scenario_id if scenario is None else scenario.title,
        level=VIOLATED,
        code=failure.violated if step is None else EXPECTATION,
        message=message,
        settings=failure.settings,
        statement=parts.get("statement", "") if step is None else _step(scenario, step),
        why=parts.get("reason", ""),
        source=parts.get("source", ""),
        expected=found.expected if found is not None else "",
        seen=found.seen if found is not None else "",
        order=None if failure.departures is None else list(order_lines(failure.departures)),
        evidence=list(cut(witness_lines(failure, failure.witness))),
        witness=list(found.witness if found is not None else failure.witness),
        failure_file=str(path),
        replay=replay_command(str(path)),
        trace=None if found is None else found.trace,
        trace_missing=missing,
    )


def witness_lines(failure: FailureFile, numbers: Sequence[int]) -> tuple[str, ...]:
    """Lines of these events, in order."""
    wanted = {f"#{number}" for number in numbers}
    return tuple(line for line in failure.events if line.partition(" ")[0] in wanted)


def _scenario(failure: FailureFile, path: Path) -> Scenario | None:
    """The scenario in the file; ``None`` where this version does not read it."""
    try:
        return parse(failure.scenario_text, path, name=failure.scenario_id).scenario
    except ScenarioFileError:
        return None


def _step(scenario: Scenario | None, step: int) -> str:
    """A step as its file has it, on one line."""
    if scenario is None or step >= len(scenario.steps):
        return ""
    told = scenario.steps[step].model_dump(mode="json", exclude_unset=True)
    return f"step {step}: {json.dumps(told, ensure_ascii=False)}"
