"""A matrix for a terminal: red cells at length, rows of interest, flips, a summary."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from harness.matrix import model
from harness.matrix.model import Cell, Row
from harness.reports.diagnostic import Diagnostic
from harness.reports.matrix_view import (
    SYMBOLS,
    MatrixView,
    column_title,
    flip_text,
    flips_of,
    names_of,
    status_of,
    trials_note,
    words,
)
from harness.reports.wording import counted

STYLES = {
    model.HELD: "green",
    model.KNOWN: "yellow",
    model.REGRESSION: "bold red",
    model.BLIND: "bold red",
    model.UNSTABLE: "bold red",
    model.NOT_JUDGED: "dim",
    model.ERROR: "bold magenta",
    model.NOT_RUN: "dim",
}
_DULL = frozenset({model.HELD, model.NOT_JUDGED, model.NOT_RUN})
RED_SHOWN = 20
"""Red cells and errors that are told at length; the reports have all."""


def red_diagnostics(view: MatrixView) -> list[Diagnostic]:
    """A message for each red cell and each error, at most ``RED_SHOWN`` of them."""
    errors = [cell for cell in view.table.in_order() if cell.status == model.ERROR]
    shown = [*view.table.red(), *errors]
    found = [_diagnostic(view, cell) for cell in shown[:RED_SHOWN]]
    if (more := len(shown) - RED_SHOWN) > 0:
        found.append(Diagnostic("note", f"and {more} more, in {view.out / 'matrix.md'}"))
    return found


def _diagnostic(view: MatrixView, cell: Cell) -> Diagnostic:
    trials = trials_note(cell, view.row(cell.scenario).trials_planned)
    title = cell.reason if cell.status != model.REGRESSION else cell.message
    names = cell.blind if cell.status == model.BLIND else cell.violated
    doc = view.doc(names[0]) if names else {}
    facts = (
        ("statement", doc.get("statement", "")),
        ("trials", trials),
        ("message", cell.message if title != cell.message else ""),
    )
    return Diagnostic(
        words(cell.status),
        title or cell.reason or words(cell.status),
        code=names_of(cell),
        where=f"{cell.scenario} on {cell.frontend}",
        facts=facts,
        expected=cell.expected,
        seen=cell.seen,
        evidence=cell.evidence,
        why=doc.get("reason", ""),
        source=doc.get("source", ""),
        help=view.replay(cell) or "",
    )


def grid(view: MatrixView) -> list[Text]:
    """Rows in which a cell says more than held or not judged, one sign for each cell."""
    columns = view.table.columns
    rows = [row for row in view.table.rows if _is_telling(view, row)]
    if not rows:
        return []
    width = max(len(row.id) for row in rows)
    out = [Text(f"  {number}  {column_title(column)}") for number, column in _numbered(view)]
    out.append(Text())
    heads = " ".join(f"{number:>2}" for number, _ in _numbered(view))
    out.append(Text(f"{'':<{width}}  {heads}", "dim"))
    for row in rows:
        line = Text(f"{row.id:<{width}} ", "bold")
        for column in columns:
            status = status_of(view.table.cell(row.id, column.id))
            line.append(f"  {SYMBOLS[status]}", STYLES[status])
        out.append(line)
    if (rest := len(view.table.rows) - len(rows)) > 0:
        out.append(Text(f"and {_dull(rest)} held or not judged everywhere", "dim"))
    return out


def _numbered(view: MatrixView) -> Iterator[tuple[int, model.Column]]:
    return ((number, column) for number, column in enumerate(view.table.columns, 1))


def _is_telling(view: MatrixView, row: Row) -> bool:
    cells = [view.table.cell(row.id, column.id) for column in view.table.columns]
    return any(status_of(cell) not in _DULL for cell in cells)


def _dull(number: int) -> str:
    return f"{counted(number, 'scenario')} that {'is' if number == 1 else 'are'}"


def flip_lines(view: MatrixView) -> list[str]:
    """One line for each flip."""
    return [
        f"{flip_text(flip)}: {flip.invariant}  {row.id}"
        for row in view.table.rows
        for flip in flips_of(view, row)
    ]


def legend() -> str:
    """The signs, on one line."""
    return "  ".join(f"{sign} {words(status)}" for status, sign in SYMBOLS.items())


def summary(view: MatrixView) -> Text:
    """Counts of cells by status, and what the exit code says."""
    out = Text()
    for status, count in view.counts.items():
        if status in {model.UNSTABLE, model.NOT_RUN} and not count:
            continue
        if out:
            out.append(", ")
        out.append(f"{count} {words(status)}", STYLES[status] if count else "")
    out.append(f"; exit {int(view.code)}: {view.verdict}")
    return out
