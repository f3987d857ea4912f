"""Finished work, one line of JSON each, in a file whose first line says what it is about.

What was being written when a run was stopped is passed over, and done again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from harness.journal import Journal

ABOUT = "about"


def taken_up(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """What a file is about, and its rows; nothing of a file that is not there."""
    if not path.exists():
        return "", []
    with closing(Journal(path, fresh=False)) as journal:
        lines = journal.lines
    if not lines or set(lines[0]) != {ABOUT}:
        return "", []
    return str(lines[0][ABOUT]), lines[1:]


def begin(path: Path, about: str, rows: Iterable[dict[str, Any]] = ()) -> None:
    """Begin a file anew, with these rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(Journal(path, fresh=True)) as journal:
        for line in ({ABOUT: about}, *rows):
            journal.add(line)


def add(path: Path, row: dict[str, Any]) -> None:
    """Add a row, on disk at once."""
    with closing(Journal(path, fresh=False)) as journal:
        journal.add(row)
