"""Finished cells in a file, one JSON object in each line, only ever added to.

A line that was cut off, by a crash or a full disk, is passed over: its cell is played again.
For a key that comes twice the later line counts. One run at a time holds the file.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import BinaryIO

from harness.matrix.model import Cell

FILE_NAME = "cells.jsonl"


class StoreBusyError(Exception):
    """Another run writes into this file."""


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
        self.unreadable = 0
        self._cells: dict[str, Cell] = {}
        self._file: BinaryIO = path.open("a+b", buffering=0)
        try:
            _hold(self._file, path)
            if fresh:
                self._file.truncate(0)
            self._read()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        for line in data.split(b"\n"):
            if line and not self._take(line):
                self.unreadable += 1
        if data and not data.endswith(b"\n"):
            # What follows must not be glued to the line that was cut off.
            self._write(b"\n")

    def _take(self, line: bytes) -> bool:
        try:
            document = json.loads(line)
            self._cells[str(document["key"])] = Cell.from_json(document["cell"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        return True

    def get(self, key: str) -> Cell | None:
        """The finished cell of a key."""
        return self._cells.get(key)

    def put(self, key: str, cell: Cell) -> None:
        """Add a finished cell.

        Raises:
            OSError: it cannot be written.
        """
        line = json.dumps({"key": key, "cell": cell.to_json()}, ensure_ascii=True)
        self._write(line.encode() + b"\n")
        self._cells[key] = cell

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file.fileno(), data) :]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _hold(file: BinaryIO, path: Path) -> None:
    """Lock the file until it is closed; a system without such locks does without."""
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreBusyError(str(path)) from error
