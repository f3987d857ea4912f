"""How far a matrix is: a bar on a terminal, a line now and then elsewhere. On standard error."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.cli.output import console, echo
from harness.matrix.model import Cell
from harness.reports.visible import printable

LINES = 10
"""Lines about the progress where there is no terminal."""


class MatrixProgress:
    """Shows how many of ``total`` cells are done, how many are red, and the last one."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._red = 0
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self._live = terminal and os.environ.get("TERM") != "dumb" and total > 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console(stderr=True),
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("cells", total=total)

    def __enter__(self) -> Self:
        """Start to show."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was."""
        self._bar.stop()

    def advance(self, cell: Cell) -> None:
        """One more cell is done."""
        self._done += 1
        self._red += cell.red
        red = f", {self._red} red" if self._red else ""
        if self._live:
            text = f"{cell.frontend} {cell.scenario}{red}"
            # The column takes markup.
            shown = escape(printable(text[-60:]))
            self._bar.update(self._task, advance=1, description=shown)
            return
        step = max(1, self._total // LINES)
        if self._done % step == 0 or self._done == self._total:
            echo(f"{self._done}/{self._total} cells{red}", err=True)
