"""A matrix as Markdown, as code hosts show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.matrix import model
from harness.matrix.model import Cell
from harness.reports.matrix_view import (
    MEANINGS,
    SYMBOLS,
    MatrixView,
    column_title,
    details,
    flip_rows,
    race_cells,
    reasons,
    status_of,
    trials_note,
    why,
    words,
)
from harness.reports.visible import printable
from harness.reports.wording import counted

NOT_RUN_SHOWN = 200
"""Cells that were not run and are listed by name; the JSON has all of them."""
_SPECIAL = "\\`*_[]<>|~&"
_SPECIAL_FIRST = "#+-="


def matrix_markdown(view: MatrixView) -> str:
    """The report, with a final newline."""
    parts = [
        _head(view),
        _red(view),
        _flips(view),
        _table(view),
        _errors(view),
        _races(view),
        _not_judged(view),
        _not_run(view),
    ]
    return "\n\n".join("\n".join(part) for part in map(list, parts) if part) + "\n"


def escaped(text: str) -> str:
    """Text in which nothing is markup, on one line."""
    plain = printable(" ".join(text.split()))
    found = "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in plain)
    return f"\\{found}" if found[:1] in _SPECIAL_FIRST and found else found


def code(text: str) -> str:
    """Text as code: fenced by more backticks than it holds in a row."""
    plain = printable(" ".join(text.split()))
    longest = _longest_run(plain)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def code_cell(text: str) -> str:
    """Text as code in a table, where a bar ends the cell even in code."""
    return code(text).replace("|", "\\|")


def _longest_run(text: str) -> int:
    longest = current = 0
    for sign in text:
        current = current + 1 if sign == "`" else 0
        longest = max(longest, current)
    return longest


def _head(view: MatrixView) -> Iterator[str]:
    counts = view.counts
    yield "# Conformance matrix"
    yield ""
    yield (
        f"wavecheck {escaped(view.tool)}, {counted(len(view.table.rows), 'scenario')} on "
        f"{counted(len(view.table.columns), 'frontend')}: exit {int(view.code)}, {escaped(view.verdict)}."
    )
    yield ""
    yield "| sign | cells | status | meaning |"
    yield "|---|---:|---|---|"
    for status, meaning in MEANINGS.items():
        yield f"| {escaped(SYMBOLS[status])} | {counts[status]} | {words(status)} | {meaning} |"
    notes = [column for column in view.table.columns if column.note]
    if notes:
        yield ""
        yield from (f"- {escaped(column.note)}" for column in notes)


def _red(view: MatrixView) -> list[str]:
    cells = view.table.red()
    return [] if not cells else ["## Red cells", "", *_items(view, cells)]


def _errors(view: MatrixView) -> list[str]:
    cells = [cell for cell in view.table.in_order() if cell.status == model.ERROR]
    return [] if not cells else ["## Errors", "", *_items(view, cells)]


def _items(view: MatrixView, cells: Iterable[Cell]) -> Iterator[str]:
    for cell in cells:
        yield f"- **{words(cell.status)}** {code(cell.scenario)} on {code(cell.frontend)}"
        for line in details(cell, view.row(cell.scenario).trials_planned):
            yield f"  - {escaped(line)}"
        if cell.red:
            yield from (f"  - {escaped(line)}" for line in why(view, cell))
            yield from (f"  - {code(line)}" for line in cell.evidence)
        if (command := view.replay(cell)) is not None:
            yield f"  - replay: {code(command)}"


def _flips(view: MatrixView) -> Iterator[str]:
    rows = flip_rows(view)
    if not rows:
        return
    yield "## Flips"
    yield ""
    yield "As measured in this matrix: the last release on one side, the first on the other."
    yield ""
    yield "| scenario | promise | flip |"
    yield "|---|---|---|"
    for row, found in rows:
        for flip in found:
            text = f"{flip.direction} between {escaped(f'{flip.before} | {flip.after}')}"
            yield f"| {code_cell(row.id)} | {code_cell(flip.invariant)} | {text} |"
        if not found:
            names = ", ".join(code_cell(entry.invariant) for entry in row.known)
            yield f"| {code_cell(row.id)} | {names} | none among these frontends |"


def _table(view: MatrixView) -> Iterator[str]:
    columns = view.table.columns
    yield "## Cells"
    yield ""
    yield f"| scenario | {' | '.join(escaped(column_title(column)) for column in columns)} |"
    yield "|---|" + ":-:|" * len(columns)
    for row in view.table.rows:
        signs = []
        for column in columns:
            sign = SYMBOLS[status_of(view.table.cell(row.id, column.id))]
            signs.append(f"**{sign}**" if sign in "RBU" else escaped(sign))
        yield f"| {code_cell(row.id)} | {' | '.join(signs)} |"


def _races(view: MatrixView) -> Iterator[str]:
    cells = race_cells(view)
    if not cells:
        return
    yield "## Races"
    yield ""
    yield "| scenario | frontend | status | trials |"
    yield "|---|---|---|---|"
    for cell in cells:
        note = trials_note(cell, view.row(cell.scenario).trials_planned)
        yield (
            f"| {code_cell(cell.scenario)} | {escaped(cell.frontend)} | {words(cell.status)} "
            f"| {escaped(note)} |"
        )


def _not_judged(view: MatrixView) -> Iterator[str]:
    found = reasons(view.table)
    if not found:
        return
    yield "## Not judged"
    yield ""
    yield "| cells | reason |"
    yield "|---:|---|"
    yield from (f"| {count} | {escaped(reason)} |" for reason, count in found)


def _not_run(view: MatrixView) -> Iterator[str]:
    left = view.table.not_run()
    if not left:
        return
    yield "## Not run"
    yield ""
    were = "was" if len(left) == 1 else "were"
    yield f"{counted(len(left), 'cell')} {were} not run; `--resume` runs what is left."
    yield ""
    for scenario, frontend in left[:NOT_RUN_SHOWN]:
        yield f"- {code(scenario)} on {code(frontend)}"
    if (more := len(left) - NOT_RUN_SHOWN) > 0:
        yield f"- and {more} more, in matrix.json"
