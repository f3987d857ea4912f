"""What is disturbed: a command, how it is taken up again, and the table that it must end with."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).parents[2]

Row = tuple[str, str]
"""A scenario, and what it was played on."""
Table = Mapping[Row, Any]

ERROR = "error"
_SAME = ("status", "reason", "known", "regression", "blind", "held", "plays")
"""Of a cell, what must be as in an undisturbed run. How often a race was tried, and how long it
took, may differ between two undisturbed runs."""

MATRIX = (
    "lifecycle/a-stalled-engine-goes-on",
    "lifecycle/sigkill-ends-the-frontend",
    "requests/two-frontends-abort-by-id",
    "utility/failing-beside-hanging",
)
"""Engines in processes of their own, a frontend that a step kills, two frontends at once, and a
fault that only one of the two releases has."""
ADAPTER = (
    "lifecycle/a-rank-vanishes",
    "requests/aborted-then-left",
    "utility/failing-beside-hanging",
    "waves/wave-complete-advances-once",
)


class Stage(Protocol):
    """A command that is disturbed."""

    @property
    def name(self) -> str:
        """Tells it from others."""

    def first(self, out: Path) -> list[str]:
        """The command as it is disturbed."""

    def again(self, out: Path, *, told: bool) -> list[str]:
        """The command that finishes what was disturbed; ``told``: it had its say at its end."""

    def table(self, out: Path) -> Table:
        """What the last command came to, with what it left from the one before."""

    def broken(self, out: Path) -> list[str]:
        """What in the folder cannot be read, although it must be, whatever was killed."""


def wavecheck(*words: str) -> list[str]:
    """The command line of our own command."""
    return [sys.executable, "-m", "harness", *words]


@dataclass(frozen=True)
class MatrixStage:
    """``wavecheck matrix``, and ``--resume``."""

    frontends: str
    scenarios: Sequence[str] = MATRIX
    jobs: int = 2
    name: str = "matrix"

    def first(self, out: Path) -> list[str]:
        """A new matrix."""
        words = ["matrix", "--frontends", self.frontends, "--jobs", str(self.jobs)]
        return wavecheck(*words, "--out", str(out), *self.scenarios)

    def again(self, out: Path, *, told: bool) -> list[str]:
        """The rest of it."""
        del told
        return [*self.first(out), "--resume"]

    def table(self, out: Path) -> Table:
        """Each cell, but for figures; cells that were not run are not in it."""
        document = json.loads((out / "matrix.json").read_text())
        return {
            (cell["scenario"], cell["frontend"]): {name: cell[name] for name in _SAME}
            for cell in document["cells"]
        }

    def broken(self, out: Path) -> list[str]:
        """Lines of the journal, but for a last one that was cut off; failure files; the table."""
        found = []
        journal = out / "cells.jsonl"
        lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
        for number, line in enumerate(lines, 1):
            if line and not _is_json(line):
                found.append(f"{journal.name}, line {number}: {line[:80]!r}")
        return found + _unreadable([*(out / "failures").glob("*.json"), *out.glob("*.json")])


@dataclass(frozen=True)
class AdapterStage:
    """``wavecheck run --target adapter``, and ``--last-failed``."""

    scenarios: Sequence[str] = ADAPTER
    jobs: int = 2
    name: str = "adapter"

    def first(self, out: Path) -> list[str]:
        """A new run."""
        words = ["run", "--target", "adapter", "--jobs", str(self.jobs)]
        words += ["--json", str(out / "run.json"), "--out", str(out)]
        return wavecheck(*words, *self.scenarios)

    def again(self, out: Path, *, told: bool) -> list[str]:
        """What failed of it; everything if it could not say what had."""
        if not (told and (out / "last-failed.json").exists()):
            return self.first(out)
        words = ["run", "--target", "adapter", "--jobs", str(self.jobs), "--last-failed"]
        return wavecheck(*words, "--json", str(out / "again.json"), "--out", str(out))

    def table(self, out: Path) -> Table:
        """Status and verdicts of each scenario."""
        found: dict[Row, Any] = {}
        for path in (out / "run.json", out / "again.json"):
            if path.exists():
                for one in json.loads(path.read_text())["results"]:
                    words = {v["invariant"]: v["verdict"] for v in one["verdicts"]}
                    found[one["scenario"], "adapter"] = {"status": one["status"], "words": words}
        return found

    def broken(self, out: Path) -> list[str]:
        """Failure files and results."""
        return _unreadable(out.glob("*.json"))


def _unreadable(paths: Any) -> list[str]:
    return [str(path.name) for path in sorted(paths) if not _is_json(path.read_bytes())]


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
