"""A matrix as a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.matrix import model
from harness.reports.inputs.documents import CellObject, FrontendObject, MatrixDocument
from harness.reports.inputs.failures import Doc, Tracing, with_trace
from harness.reports.matrix_view import MEANINGS, SYMBOLS
from harness.reports.told.model import Grid, Report, Result, Violation
from harness.reports.wording import counted
from harness.version import tool_version

TOLD = frozenset({*model.RED, model.KNOWN, model.ERROR})
"""Statuses of cells that are told at length."""
_RED = (model.REGRESSION, model.BLIND, model.UNSTABLE)


def matrix_report(document: MatrixDocument, source: Path, doc: Doc, tracing: Tracing) -> Report:
    """The report on one matrix."""
    titles = {scenario.id: scenario.title for scenario in document.scenarios}
    columns = {frontend.id: frontend for frontend in document.frontends}
    order = {
        cell: place
        for place, cell in enumerate(
            sorted(range(len(document.cells)), key=lambda n: _weight(document.cells[n]))
        )
    }
    violations: dict[int, Violation] = {}
    # The gravest cells first, for the room that a report has for events.
    for place in sorted(order, key=order.__getitem__):
        cell = document.cells[place]
        if cell.status in TOLD:
            told = _violation(cell, titles, columns.get(cell.frontend), doc)
            if cell.failure_file is not None:
                told = with_trace(told, tracing, cell.failure_file, source)
            violations[place] = told
    numbers = {place: number for number, place in enumerate(violations)}
    results = [
        Result(
            scenario=cell.scenario,
            title=titles.get(cell.scenario, ""),
            column=cell.frontend,
            status=cell.status,
            mutant=columns[cell.frontend].mutant if cell.frontend in columns else None,
            detail=_detail(cell),
            trials=cell.trials,
            duration_s=cell.duration_s,
            violation=numbers.get(place),
        )
        for place, cell in enumerate(document.cells)
    ]
    summary = dict(document.summary)
    code = summary.pop("exit", None)
    rows, heads = len(document.scenarios), len(document.frontends)
    return Report(
        form="matrix",
        tool=tool_version(),
        source=str(source),
        headline=f"{counted(rows, 'scenario')} on {counted(heads, 'frontend')}",
        verdict=_verdict(summary, code),
        exit=code,
        counts={status: count for status, count in summary.items() if count},
        results=results,
        violations=list(violations.values()),
        matrix=_grid(document),
        not_run=[f"{pair.scenario} on {pair.frontend}" for pair in document.not_run],
    )


def _weight(cell: CellObject) -> int:
    order = [*_RED, model.ERROR, model.KNOWN]
    return order.index(cell.status) if cell.status in order else len(order)


def _grid(document: MatrixDocument) -> Grid:
    places = {(cell.scenario, cell.frontend): n for n, cell in enumerate(document.cells)}
    rows = [scenario.id for scenario in document.scenarios]
    columns = [frontend.id for frontend in document.frontends]
    return Grid(
        columns=columns,
        column_notes={
            frontend.id: frontend.error or frontend.note or ""
            for frontend in document.frontends
            if frontend.error or frontend.note
        },
        rows=rows,
        cells=[[places.get((row, column), -1) for column in columns] for row in rows],
        flips=[
            f"{flip.scenario}: {flip.invariant} {flip.direction} between "
            f"{flip.before} | {flip.after}"
            for flip in document.flips
        ],
        signs=dict(SYMBOLS),
        meanings=dict(MEANINGS),
    )


def _violation(
    cell: CellObject, titles: dict[str, str], column: FrontendObject | None, doc: Doc
) -> Violation:
    names = cell.blind if cell.status == model.BLIND else [*cell.regression, *cell.known]
    code = names[0] if names else ""
    parts = doc(code)
    settings = [f"frontend {cell.frontend}"]
    if column is not None:
        settings += [f"profile {column.release}"] if column.release else []
        settings += [f"mutant {column.mutant}"] if column.mutant else []
    return Violation(
        scenario=cell.scenario,
        title=titles.get(cell.scenario, ""),
        level=cell.status,
        code=code,
        message=cell.message or cell.reason or f"{code} is {cell.status}",
        settings=settings,
        statement=parts.get("statement", ""),
        why=parts.get("reason", ""),
        source=parts.get("source", ""),
        expected=cell.expected or "",
        seen=cell.seen or "",
        also=[*names[1:], *(f"{name} (should)" for name in cell.should)],
        evidence=list(cell.evidence),
        failure_file=cell.failure_file or "",
        replay=cell.replay or "",
        trace_missing="" if cell.failure_file else "this cell has no failure file",
    )


def _detail(cell: CellObject) -> str:
    return cell.message or cell.reason or ", ".join([*cell.regression, *cell.known, *cell.blind])


def _verdict(counts: dict[str, int], code: int | None) -> str:
    shown: Sequence[str] = [
        f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count
    ]
    return f"{', '.join(shown) or 'no cells'}{'' if code is None else f'; exit {code}'}"
