"""What every report of a matrix says, put into words once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.matrix import model
from harness.matrix.model import Cell, Column, Flip, Row, Table, count_statuses
from harness.repeats import tally
from harness.reports.text import replay_command
from harness.reports.wording import counted
from harness.verdict import ExitCode

SYMBOLS: Mapping[str, str] = {
    model.HELD: "+",
    model.KNOWN: "k",
    model.REGRESSION: "R",
    model.BLIND: "B",
    model.UNSTABLE: "U",
    model.NOT_JUDGED: "·",
    model.ERROR: "E",
    model.NOT_RUN: "?",
}
"""One sign for each status, for tables of text."""

MEANINGS: Mapping[str, str] = {
    model.HELD: "kept, and exercised",
    model.KNOWN: "broken, as the scenario's `known` predicts",
    model.REGRESSION: "broken, and not predicted",
    model.BLIND: "predicted to be broken, and not seen",
    model.UNSTABLE: "repeats differ",
    model.NOT_JUDGED: "not judged, for a reason that is given",
    model.ERROR: "the target or the harness failed",
    model.NOT_RUN: "not run",
}
_MEANING = {
    ExitCode.OK: "as predicted",
    ExitCode.HARNESS: "the target or the harness failed",
    ExitCode.NOT_JUDGED: "nothing could be judged",
    ExitCode.INTERRUPTED: "interrupted; cells so far",
}


Doc = Callable[[str], Mapping[str, str]]
"""Statement, reason and source of an invariant by its id; empty for an unknown one."""


@dataclass(frozen=True, slots=True)
class MatrixView:
    """A finished table and what belongs beside it.

    Attributes:
        flips: as measured in this table.
        out: folder of the reports; failure files are named relative to it.
        doc: parts of an invariant's docstring by its id.
    """

    table: Table
    flips: tuple[Flip, ...]
    code: ExitCode
    out: Path
    tool: str
    doc: Doc

    @property
    def counts(self) -> dict[str, int]:
        """Cells by status, and how many were not run."""
        found = count_statuses(self.table.in_order())
        return {**found, model.NOT_RUN: len(self.table.not_run())}

    @property
    def verdict(self) -> str:
        """What the exit code says, in a few words."""
        if self.code is not ExitCode.VIOLATION:
            return _MEANING[self.code]
        counts = self.counts
        return ", ".join(
            f"{counts[status]} {status}" for status in model.STATUSES
            if status in model.RED and counts[status]
        )  # fmt: skip

    def failure_path(self, cell: Cell) -> str | None:
        """The failure file as the caller of the command would name it."""
        return None if cell.failure_file is None else str(self.out / cell.failure_file)

    def replay(self, cell: Cell) -> str | None:
        """The command that replays the failure of a cell."""
        path = self.failure_path(cell)
        return None if path is None else replay_command(path)

    def row(self, scenario: str) -> Row:
        """The row of a scenario."""
        return next(row for row in self.table.rows if row.id == scenario)


def status_of(cell: Cell | None) -> str:
    """The status of a cell, ``not_run`` where there is none."""
    return model.NOT_RUN if cell is None else cell.status


def words(status: str) -> str:
    """A status for people."""
    return status.replace("_", " ")


def names_of(cell: Cell) -> str:
    """What a cell is about: the promises that made it what it is."""
    if cell.status == model.BLIND:
        return ", ".join(cell.blind)
    return ", ".join(cell.regression or cell.known)


def trials_note(cell: Cell, planned: int) -> str:
    """How much of a race was played: when it was seen, or in how many trials it was not.

    ``planned``: trials of one play that make a miss unlikely enough.
    """
    if not cell.race or not cell.trials:
        return ""
    many = counted(cell.trials, "trial")
    if cell.violated:
        return f"seen in {many}" if len(cell.plays) > 1 else f"seen at trial {cell.trials}"
    of = f" of {planned * max(1, len(cell.plays))} (budget spent)" if cell.cut else ""
    return f"not seen in {cell.trials}{of} trials" if of else f"not seen in {many}"


def why(view: MatrixView, cell: Cell) -> list[str]:
    """What the first promise of a cell says and is for, and what is known of its fault."""
    names = cell.blind if cell.status == model.BLIND else (*cell.regression, *cell.known)
    if not names:
        return []
    doc = view.doc(names[0])
    lines = [
        f"{word}: {doc[part]}"
        for part, word in (("statement", "promise"), ("reason", "why"), ("source", "source"))
        if doc.get(part)
    ]
    for entry in view.row(cell.scenario).known:
        if entry.invariant in {*cell.known, *cell.blind}:
            link = f" ({entry.link})" if entry.link else ""
            lines.append(f"known: {entry.reason}{link}")
    return lines


def details(cell: Cell, planned: int) -> list[str]:
    """Everything that a cell says beside its status, one line each."""
    lines = [names_of(cell), cell.reason, trials_note(cell, planned)]
    if len(cell.plays) > 1 and cell.status != model.UNSTABLE:
        lines.append(f"{len(cell.plays)} repeats: {tally(cell.plays)}")
    if cell.message:
        lines.append(cell.message)
    if cell.expected:
        lines.append(f"expected: {cell.expected}")
    if cell.seen:
        lines.append(f"seen: {cell.seen}")
    lines += [f"{name} (should) is violated" for name in cell.should]
    return [line for line in lines if line]


def flip_text(flip: Flip) -> str:
    """One flip: ``fixed between 0.24.0 | 0.25.0``."""
    return f"{flip.direction} between {flip.before} | {flip.after}"


def flips_of(view: MatrixView, row: Row) -> list[Flip]:
    """Flips of one scenario."""
    return [flip for flip in view.flips if flip.scenario == row.id]


def flip_rows(view: MatrixView) -> list[tuple[Row, list[Flip]]]:
    """Scenarios that flip, and where two releases could show it those that might have."""
    comparable = sum(column.released for column in view.table.columns) > 1
    rows = [(row, flips_of(view, row)) for row in view.table.rows]
    return [(row, found) for row, found in rows if found or (comparable and row.known)]


def reasons(table: Table) -> list[tuple[str, int]]:
    """Why cells were not judged, the most frequent first; each with how many cells."""
    found = Counter(
        cell.reason or "no reason is given"
        for cell in table.in_order()
        if cell.status == model.NOT_JUDGED
    )
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def column_title(column: Column) -> str:
    """A frontend, and the release that judges it where that is another word."""
    if column.released or not column.release:
        return column.id
    return f"{column.id} (as {column.release})"


def race_cells(view: MatrixView) -> list[Cell]:
    """Cells that were played in trials."""
    return [cell for cell in view.table.in_order() if cell.race and cell.trials]
