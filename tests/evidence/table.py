"""What lies of which kind break which invariants, counted over many runs."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.invariants import discover
from tests.evidence.mutate import CHANGED, lies, mutated, spread
from tests.evidence.runs import Run

HELD, VIOLATED = "held", "violated"
Row = tuple[str, str, str]
"""Invariant, operation, and what it was done to."""


@dataclass
class Table:
    """Counts over runs in which an invariant was not violated.

    Attributes:
        tried: lies, by row, where the invariant held on the true evidence.
        broke: those of them that it was broken by.
        raised: checkers that raised instead, with where.
        odd: those that raised over a changed event, whose shape no trace has.
    """

    lies: int = 0
    runs: int = 0
    tried: Counter[Row] = field(default_factory=Counter)
    broke: Counter[Row] = field(default_factory=Counter)
    raised: dict[str, str] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)

    def add(self, run: Run, most: int) -> None:
        """Judge lies about at most so many events of a run."""
        self.runs += 1
        base = run.verdicts
        for lie in lies(run.records, spread(len(run.records), most)):
            self.lies += 1
            try:
                verdicts = run.judged(mutated(run.records, lie))
            except Exception as error:  # noqa: BLE001  (whatever it is, it is what we look for)
                where = traceback.extract_tb(error.__traceback__)[-1]
                name = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}"
                where_to = self.odd if lie.operation == CHANGED else self.raised
                where_to.setdefault(name, f"{run.name}: #{lie.place} {lie.what} {lie.operation}")
                continue
            for name, verdict in verdicts.items():
                row = (name, lie.operation, lie.what)
                if base[name].verdict == HELD:
                    self.tried[row] += 1
                    self.broke[row] += verdict.verdict == VIOLATED

    def broken_by(self, invariant: str) -> list[tuple[str, str, int, int]]:
        """Operation, what, how often it broke and of how many: most certain first."""
        rows = [
            (operation, what, count, self.tried[name, operation, what])
            for (name, operation, what), count in self.broke.items()
            if name == invariant and count
        ]
        return sorted(rows, key=lambda row: (-row[2] / row[3], -row[3], row[:2]))

    @property
    def unbroken(self) -> list[str]:
        """Invariants that no lie broke: a check that nothing can fail."""
        return [cls.id for cls in discover() if not self.broken_by(cls.id)]

    def markdown(self, most: int = 4) -> Iterator[str]:
        """A row for each invariant, with the lies that break it most surely."""
        yield "| invariant | lies that break it, and how often |"
        yield "|---|---|"
        for cls in discover():
            shown = [
                f"`{what}` {operation} {count} of {tried}"
                for operation, what, count, tried in self.broken_by(cls.id)[:most]
            ]
            yield f"| `{cls.id}` | {'; '.join(shown) or '**none**'} |"
