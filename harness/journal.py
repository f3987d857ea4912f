"""A file of finished work, one JSON object in each line, only ever added to.

A line that was cut off, by a crash or a full disk, is passed over, and the next one is whole. One run
at a time holds the file.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from harness.files import unlink_link


class JournalBusyError(Exception):
    """Another run writes into this file."""


class Journal:
    """One open file. ``close`` when done.

    Attributes:
        path: of the file.
        lines: the objects that were there when it was opened.
        unreadable: lines that hold none.
    """

    def __init__(self, path: Path, *, fresh: bool) -> None:
        """Open, and read what is there; ``fresh`` empties it first.

        Raises:
            JournalBusyError: another run holds it.
            OSError: it cannot be written.
        """
        self.path = path
        self.unreadable = 0
        self.lines: list[dict[str, Any]] = []
        unlink_link(path)
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
            if line:
                self._take(line)
        if data and not data.endswith(b"\n"):
            # What follows must not be glued to the line that was cut off.
            self._write(b"\n")

    def _take(self, line: bytes) -> None:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            self.lines.append(document)
        else:
            self.unreadable += 1

    def add(self, document: dict[str, Any]) -> None:
        """Add a line.

        Raises:
            OSError: it cannot be written.
        """
        self._write(json.dumps(document, ensure_ascii=True).encode() + b"\n")

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
            raise JournalBusyError(str(path)) from error
