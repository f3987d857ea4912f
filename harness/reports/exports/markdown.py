"""A report as Markdown, short enough for the summary page of a CI job."""

from __future__ import annotations

from collections.abc import Iterator

from harness.reports.exports.mermaid import mermaid
from harness.reports.matrix_markdown import code, code_cell, escaped
from harness.reports.told.model import Report, Violation
from harness.reports.wording import counted

BYTES_MAX = 900_000
"""A code host takes a summary of 1 MiB at most."""
TOLD_MAX = 20
"""Violations that are told at length."""
LISTED_MAX = 200
"""Violations that are named at all."""
DIAGRAM_EVENTS = 40
"""Events of the diagram of one violation."""


def markdown(report: Report) -> str:
    """The summary, with a final newline."""
    parts = ["\n".join(_head(report))]
    size = len(parts[0].encode())
    told = 0
    for violation in report.violations[:TOLD_MAX]:
        text = "\n".join(_violation(violation))
        size += len(text.encode())
        if size > BYTES_MAX:
            break
        parts.append(text)
        told += 1
    parts.append("\n".join(_rest(report, told)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(report: Report) -> Iterator[str]:
    yield f"# wavecheck: {escaped(report.headline)}"
    yield ""
    yield f"{escaped(report.verdict)}"
    if report.counts:
        yield ""
        yield "| status | results |"
        yield "|---|---:|"
        for status, number in report.counts.items():
            yield f"| {escaped(status.replace('_', ' '))} | {number} |"
    for note in report.notes:
        yield ""
        yield f"> {escaped(note)}"
    if report.not_run:
        yield ""
        yield f"{counted(len(report.not_run), 'result')} not run."


def _violation(violation: Violation) -> Iterator[str]:
    name = f"{violation.code}: " if violation.code else ""
    yield f"## {escaped(violation.level)}: {escaped(name + violation.message)}"
    yield ""
    yield f"{code(violation.scenario)} ({escaped(', '.join(violation.settings))})"
    if violation.statement:
        yield ""
        yield escaped(violation.statement)
    if violation.expected or violation.seen:
        yield ""
        yield "| expected | seen |"
        yield "|---|---|"
        yield f"| {escaped(violation.expected)} | {escaped(violation.seen)} |"
    if (violation.trace is not None and violation.trace.events) or violation.evidence:
        yield ""
        yield "```mermaid"
        yield mermaid(violation, most=DIAGRAM_EVENTS).rstrip("\n")
        yield "```"
    if violation.also:
        yield ""
        yield from (f"- also: {escaped(line)}" for line in violation.also)
    if violation.replay:
        yield ""
        yield f"Replay: {code(violation.replay)}"


def _rest(report: Report, told: int) -> Iterator[str]:
    left = report.violations[told:]
    if not left:
        return
    yield f"## {counted(len(left), 'further violation')}"
    yield ""
    yield "| level | scenario | promise |"
    yield "|---|---|---|"
    for violation in left[:LISTED_MAX]:
        promise = code_cell(violation.code) if violation.code else escaped(violation.message)
        yield f"| {escaped(violation.level)} | {code_cell(violation.scenario)} | {promise} |"
    if (more := len(left) - LISTED_MAX) > 0:
        yield ""
        yield f"And {more} more, in the page or the JSON."
