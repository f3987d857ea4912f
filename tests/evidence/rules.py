"""Which lies must break which invariants: ``must.yaml``, one rule for each line of it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.scenario.loader import builtin_dir, load
from tests.evidence.mutate import Lie, lies
from tests.evidence.runs import Run, record

FILE = Path(__file__).parent / "must.yaml"


@dataclass(frozen=True)
class Rule:
    """Every lie of this kind about the run of a scenario breaks the invariant, or hides its violation."""

    invariant: str
    scenario: str
    release: str | None
    operation: str
    what: str
    cures: bool
    where: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    last: bool = False
    to: tuple[Any, ...] | None = None

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what} {self.operation} in {self.scenario}"

    def run(self) -> Run:
        """Its run; one for all rules of a scenario and release."""
        found = recorded(self.scenario, self.release)
        assert found is not None, f"{self.scenario} does not apply to {self.release}"
        return found

    def lies(self) -> list[Lie]:
        """All lies of this rule about its run."""
        found = [
            lie
            for lie in lies(self.run().records)
            if lie.operation == self.operation
            and lie.what == self.what
            and all(getattr(lie.event, name) in values for name, values in self.where)
            and (self.to is None or getattr(lie.other, lie.field) in self.to)
        ]
        return found[-1:] if self.last else found


@functools.cache
def recorded(scenario: str, release: str | None) -> Run | None:
    """Play a scenario of the collection once."""
    root = builtin_dir()
    return record(load(root / f"{scenario}.yaml", root=root), release=release)


def rules() -> Iterator[Rule]:
    """All of them."""
    told: dict[str, list[dict[str, Any]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for invariant, entries in told.items():
        for entry in entries:
            where = dict(entry.get("where", {}))
            last = where.pop("last", False)
            for operation, whats in entry["lies"].items():
                for what in whats:
                    yield Rule(
                        invariant,
                        entry["in"],
                        entry.get("release"),
                        operation,
                        what,
                        entry.get("cures", False),
                        tuple((name, tuple(values)) for name, values in where.items()),
                        last,
                        None if "to" not in entry else tuple(map(_frozen, entry["to"])),
                    )


def _frozen(value: Any) -> Any:
    """A value as events have it: lists are tuples there."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
