"""Where a promise was mended or broken, as the cells of a matrix show it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from harness.matrix import model
from harness.matrix.model import Cell, Flip, Row, Table, releases_in_order

FIXED, BROKEN = "fixed", "broken"


def flips(table: Table, releases: Sequence[str]) -> list[Flip]:
    """Every change between releases next to each other, row by row, oldest first.

    ``releases``: all known ones, oldest first. A release that does not judge a promise is
    passed over: the change is then between the judged ones round it. Unstable cells judge
    nothing.
    """
    found: list[Flip] = []
    columns = releases_in_order(table.columns, releases)
    for row in table.rows:
        cells = [table.cell(row.id, column.id) for column in columns]
        for name in row.own:
            judged = [
                (column.release, broken)
                for column, cell in zip(columns, cells, strict=True)
                if cell is not None and (broken := is_broken(cell, name)) is not None
            ]
            found += _changes(row, name, judged)
    return found


def is_broken(cell: Cell, name: str) -> bool | None:
    """Whether a promise was broken in a cell; ``None``: it says nothing of it."""
    if cell.status not in {model.HELD, model.KNOWN, model.REGRESSION, model.BLIND}:
        return None
    if name in cell.violated or name in cell.should:
        return True
    return False if name in cell.held else None


def _changes(row: Row, name: str, judged: Sequence[tuple[str, bool]]) -> list[Flip]:
    return [
        Flip(row.id, name, before, after, FIXED if was else BROKEN)
        for (before, was), (after, now) in itertools.pairwise(judged)
        if was != now
    ]
