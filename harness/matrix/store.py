"""The finished cells of one output folder, in a ``harness.journal``.

A line that holds no cell is passed over: its cell is played again. For a key that comes twice the
later line counts.
"""

from __future__ import annotations

from pathlib import Path

from harness.journal import Journal, JournalBusyError
from harness.matrix.model import Cell

FILE_NAME = "cells.jsonl"

StoreBusyError = JournalBusyError


class CellStore:
    """The file of one output folder. ``close`` when done.

    Attributes:
        unreadable: lines that hold no cell.
    """

    def __init__(self, path: Path, *, fresh: bool) -> None:
        """Open, and read what is there; ``fresh`` empties it first.

        Raises:
            StoreBusyError: another run holds it.
            OSError: it cannot be written.
        """
        self.path = path
        self._journal = Journal(path, fresh=fresh)
        self.unreadable = self._journal.unreadable
        self._cells: dict[str, Cell] = {}
        for line in self._journal.lines:
            try:
                self._cells[str(line["key"])] = Cell.from_json(line["cell"])
            except (ValueError, KeyError, TypeError, AttributeError):
                self.unreadable += 1

    def get(self, key: str) -> Cell | None:
        """The finished cell of a key."""
        return self._cells.get(key)

    def put(self, key: str, cell: Cell) -> None:
        """Add a finished cell.

        Raises:
            OSError: it cannot be written.
        """
        self._journal.add({"key": key, "cell": cell.to_json()})
        self._cells[key] = cell

    def close(self) -> None:
        """Let go of the file."""
        self._journal.close()
