"""What each mutant came to, so that a run can be stopped and taken up."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutation.mutants import Mutant
from tests.mutation.trial import OURS
from tests.support import ledger

KILLS = ("failed", "import", "crash", "timeout")


@dataclass(frozen=True)
class Entry:
    """``end`` is that of the trial; ``passed`` means that the mutant survived all fast tests."""

    name: str
    end: str
    witness: str
    seconds: float


class Ledger:
    """Results in a file whose first line says of which tree they are."""

    def __init__(self, path: Path, digest: str, *, keep_kills: bool) -> None:
        """Take up the file; results of another tree are dropped, or only its survivors are."""
        self._path = path
        self.digest = digest
        self.entries: dict[str, Entry] = {}
        about, rows = ledger.taken_up(path)
        entries = {row["name"]: Entry(**row) for row in rows}
        if about == digest:
            self.entries = entries
        elif keep_kills:
            self.entries = {n: e for n, e in entries.items() if e.end in KILLS}
        ledger.begin(path, digest, (asdict(e) for e in self.entries.values()))

    def add(self, entry: Entry, *, keep: bool = True) -> None:
        """Take a result; ``keep``: on disk too, at once."""
        self.entries[entry.name] = entry
        if keep:
            ledger.add(self._path, asdict(entry))

    def left(self, mutants: Iterable[Mutant]) -> list[Mutant]:
        """Those without a result."""
        return [mutant for mutant in mutants if mutant.name not in self.entries]


def digest_of(root: Path) -> str:
    """Changes with every Python file and every stored example that a trial can see."""
    total = hashlib.sha256()
    for top in (*OURS, "golden", "scenarios"):
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix in {".py", ".json", ".yaml"}:
                total.update(f"{path.relative_to(root)}\n".encode())
                total.update(path.read_bytes())
    return total.hexdigest()
