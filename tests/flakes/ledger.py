"""Rounds that were run, so that a run can be stopped and taken up."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.support import ledger

SEEN = (".py", ".yaml", ".json", ".toml")
FOLDERS = ("client", "mock_engines", "harness", "scenarios", "tests", "golden")


@dataclass(frozen=True)
class Round:
    """One run of one group.

    ``red``: the tests that failed; ``line``: pytest's last one; ``printed``: all of it, not in the ledger.
    """

    group: str
    number: int
    code: int
    seconds: float
    line: str
    red: tuple[str, ...] = ()
    printed: str = field(default="", compare=False, repr=False)

    @property
    def green(self) -> bool:
        """Whether every test passed, or skipped with a reason, and there was one."""
        return self.code == 0


class Ledger:
    """Rounds in a file whose first line says of which tree they are."""

    def __init__(self, path: Path, tree: str) -> None:
        """Take up the file; rounds of another tree say nothing of this one, and are dropped."""
        self._path = path
        about, rows = ledger.taken_up(path)
        self.rounds = [_round(row) for row in rows] if about == tree else []
        ledger.begin(path, tree, (_row(each) for each in self.rounds))

    def add(self, done: Round) -> None:
        """Take a round, on disk at once."""
        self.rounds.append(done)
        ledger.add(self._path, _row(done))

    def left(self, group: str, times: int) -> list[int]:
        """Numbers of the rounds of a group that are still to run."""
        there = {each.number for each in self.rounds if each.group == group}
        return [number for number in range(1, times + 1) if number not in there]


def _row(done: Round) -> dict[str, Any]:
    row = asdict(done)
    del row["printed"]
    return row


def _round(row: dict[str, Any]) -> Round:
    return Round(**{**row, "red": tuple(row["red"])})


def tree_digest(root: Path, folders: Iterable[str] = FOLDERS) -> str:
    """Changes with every file that a test may read."""
    total = hashlib.sha256()
    for top in folders:
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix in SEEN:
                total.update(f"{path.relative_to(root)}\n".encode())
                total.update(path.read_bytes())
    return total.hexdigest()
