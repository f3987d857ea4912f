"""A matrix as one HTML file that loads nothing: readable in the dark too, sorted and filtered.

Everything that comes from scenarios, frontends or their messages is escaped by the template
engine; the page's own policy forbids any request.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING
from urllib.parse import quote

from harness.matrix import model
from harness.matrix.model import Cell
from harness.reports.matrix_view import (
    MEANINGS,
    SYMBOLS,
    MatrixView,
    column_title,
    details,
    flip_rows,
    flip_text,
    race_cells,
    reasons,
    status_of,
    trials_note,
    why,
    words,
)
from harness.reports.visible import visible

if TYPE_CHECKING:
    from jinja2 import Template

TOLD = frozenset({*model.RED, model.ERROR, model.KNOWN})
"""Statuses whose cells are told about at length, and link there."""
SEVERITY = (
    *(model.REGRESSION, model.BLIND, model.UNSTABLE, model.ERROR, model.KNOWN),
    *(model.NOT_RUN, model.HELD, model.NOT_JUDGED),
)
"""Statuses in the order in which a click on a column brings them up."""


def _shown(value: object) -> object:
    """What the template writes: texts without signs that nobody sees."""
    return visible(value) if type(value) is str else value


@functools.cache
def _template() -> Template:
    # Here, since every other command would pay for the import.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("harness", "reports"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("matrix.html.j2")


def matrix_html(view: MatrixView) -> str:
    """The page."""
    table = view.table
    rows = {row.id: (number, row) for number, row in enumerate(table.rows)}
    columns = {column.id: number for number, column in enumerate(table.columns)}
    cells = table.in_order()

    def anchor(cell: Cell) -> str:
        return f"c{rows[cell.scenario][0]}-{columns[cell.frontend]}"

    def lines(cell: Cell) -> list[str]:
        return details(cell, rows[cell.scenario][1].trials_planned)

    def tip(status: str, cell: Cell | None) -> str:
        said = [] if cell is None else lines(cell)[:2]
        return ": ".join([words(status), *said])

    return _template().render(
        view=view,
        symbols=SYMBOLS,
        meanings=MEANINGS,
        statuses=list(MEANINGS),
        told=TOLD,
        groups=[
            ("Red cells", table.red(), True),
            ("Errors", [cell for cell in cells if cell.status == model.ERROR], True),
            ("Known faults", [cell for cell in cells if cell.status == model.KNOWN], False),
        ],
        flip_rows=flip_rows(view),
        grid=[
            (row, [(status_of(cell), cell) for column in table.columns
                   for cell in [table.cell(row.id, column.id)]])
            for row in table.rows
        ],
        races=race_cells(view),
        reasons=reasons(table),
        not_run=table.not_run(),
        anchor=anchor,
        lines=lines,
        why=lambda cell: why(view, cell),
        severity=SEVERITY,
        tip=tip,
        link=lambda cell: quote(cell.failure_file),
        note=lambda cell: trials_note(cell, rows[cell.scenario][1].trials_planned),
        words=words,
        column_title=column_title,
        flip_text=flip_text,
    )  # fmt: skip
