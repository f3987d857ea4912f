"""Rounds that were run, one line of JSON each, so that a run can be stopped and taken up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

SEEN = (".py", ".yaml", ".json", ".toml")
FOLDERS = ("client", "mock_engines", "harness", "scenarios", "tests", "golden")


@dataclass(frozen=True)
class Round:
    """One run of one group. ``red``: the tests that failed; ``line``: pytest's last one."""

    group: str
    number: int
    code: int
    seconds: float
    line: str
    red: tuple[str, ...] = ()

    @property
    def green(self) -> bool:
        """Whether every test passed, or skipped with a reason, and there was one."""
        return self.code == 0


class Ledger:
    """Rounds in a file whose first line says of which tree they are."""

    def __init__(self, path: Path, tree: str) -> None:
        """Take up the file; rounds of another tree say nothing of this one, and are dropped."""
        self._path = path
        self.rounds: list[Round] = []
        head, rounds = _read(path)
        if head == tree:
            self.rounds = rounds
        lines = [json.dumps({"tree": tree}), *(json.dumps(asdict(each)) for each in self.rounds)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def add(self, done: Round) -> None:
        """Take a round, on disk at once."""
        self.rounds.append(done)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(done)) + "\n")

    def left(self, group: str, times: int) -> list[int]:
        """Numbers of the rounds of a group that are still to run."""
        there = {each.number for each in self.rounds if each.group == group}
        return [number for number in range(1, times + 1) if number not in there]


def _read(path: Path) -> tuple[str, list[Round]]:
    if not path.exists():
        return "", []
    head, *rest = path.read_text(encoding="utf-8").splitlines() or ["{}"]
    rounds = []
    for line in rest:
        try:
            told = json.loads(line)
            rounds.append(Round(**{**told, "red": tuple(told["red"])}))
        except (ValueError, TypeError, KeyError):
            continue  # the line that was being written when the run was stopped: run again
    try:
        return str(json.loads(head).get("tree", "")), rounds
    except ValueError:
        return "", []


def tree_digest(root: Path, folders: Iterable[str] = FOLDERS) -> str:
    """Changes with every file that a test may read."""
    total = hashlib.sha256()
    for top in folders:
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix in SEEN:
                total.update(f"{path.relative_to(root)}\n".encode())
                total.update(path.read_bytes())
    return total.hexdigest()
