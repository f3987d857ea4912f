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

from harness.files import make_room, replacing
from harness.reading import check_regular, read_bounded

FILE_BYTES_MAX = 256 << 20
"""What is taken up again; a file that is begun anew is emptied, however large it is."""
# What a system does not know is not needed there.
_FLAGS = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_APPEND
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


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
            TooLargeError: there is more to be taken up than ``FILE_BYTES_MAX``.
            OSError: it cannot be written.
        """
        self.path = path
        self.unreadable = 0
        self.lines: list[dict[str, Any]] = []
        self._file: BinaryIO = _alone(_held(path), path, fresh=fresh)
        try:
            if fresh:
                self._file.truncate(0)
            self._read()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> None:
        self._file.seek(0)
        data = read_bounded(self._file, FILE_BYTES_MAX, self.path)
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


def _held(path: Path) -> BinaryIO:
    """Open and hold the file; what has its name and is none is replaced."""
    make_room(path, hard_links=False)
    descriptor = os.open(path, _FLAGS, 0o666)
    file = os.fdopen(descriptor, "a+b", buffering=0)
    try:
        check_regular(os.fstat(descriptor).st_mode, path)
        _hold(file, path)
    except BaseException:
        file.close()
        raise
    return file


def _alone(file: BinaryIO, path: Path, *, fresh: bool) -> BinaryIO:
    """The file, or a copy of it if it has other names: they may be anybody's, and stay as they are."""
    if os.fstat(file.fileno()).st_nlink <= 1:
        return file
    # Held until the copy is: nobody takes it up in between.
    with file:
        file.seek(0)
        content = b"" if fresh else read_bounded(file, FILE_BYTES_MAX, path)
        with replacing(path) as place:
            place.write_bytes(content)
        return _held(path)


def _hold(file: BinaryIO, path: Path) -> None:
    """Lock the file until it is closed; a system without such locks does without."""
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JournalBusyError(str(path)) from error
