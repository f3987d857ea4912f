"""The table of a matrix as data: columns (frontends), rows (scenarios), cells. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from harness.scenario.model import Known

HELD = "held"
KNOWN = "known"
REGRESSION = "regression"
BLIND = "blind"
UNSTABLE = "unstable"
NOT_JUDGED = "not_judged"
ERROR = "error"
NOT_RUN = "not_run"
"""No cell yet: the run was interrupted before it."""

STATUSES = (HELD, KNOWN, REGRESSION, BLIND, UNSTABLE, NOT_JUDGED, ERROR)
"""Statuses of a cell that was played, in the order of a summary."""
RED = frozenset({REGRESSION, BLIND, UNSTABLE})
"""What makes the command end with exit code 1."""


@dataclass(frozen=True, slots=True)
class Column:
    """One frontend.

    Attributes:
        id: as it was named: a release, a path, ``reference`` with or without a release.
        release: whose promises judge it; ``""`` where it could not be had.
        released: whether it *is* that release, so that the table can say where a fault came
            or went.
        identity: digest of all that decides how it behaves: its bytes, arguments,
            environment, mutant; ``""`` where it could not be had.
        sha256: of the binary, where there is one.
        note: how its release was told, if not certainly; that its mutant cannot be seen.
        error: why it could not be had, or ``None``.
    """

    id: str
    release: str
    released: bool
    identity: str
    sha256: str | None = None
    note: str = ""
    error: str | None = None
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    mutant: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario.

    Attributes:
        race: whether it is played in trials.
        trials_planned: how many make a miss unlikely enough; 1 if it is no race.
        own: what it is about: invariants that it names or has ``known`` rows for.
    """

    id: str
    title: str
    refs: tuple[str, ...]
    known: tuple[Known, ...]
    race: bool
    trials_planned: int
    own: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """What one scenario came to on one frontend.

    Attributes:
        status: one of ``STATUSES``.
        reason: why it was not judged, what failed, how repeats differ, or ``""``.
        plays: what each repeat came to, in order.
        known, regression, blind: invariant ids, or ``expectation``: predicted and seen, seen
            and not predicted, predicted and not seen.
        should: violated ``should`` invariants; they make no cell red.
        held: of what the scenario is about, what was exercised and kept.
        trials: how many trials of a real frontend were played, all repeats together.
        race: whether the scenario is played in trials.
        cut: whether the budget of the race ended before its trials did.
        message, expected, seen: of the most telling violation, or ``""``.
        evidence: its events in order, as lines.
        failure_file: what replays it, or ``None``.
    """

    scenario: str
    frontend: str
    status: str
    reason: str = ""
    plays: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    regression: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()
    should: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    trials: int = 0
    race: bool = False
    cut: bool = False
    message: str = ""
    expected: str = ""
    seen: str = ""
    evidence: tuple[str, ...] = ()
    duration_s: float = 0.0
    failure_file: str | None = None

    @property
    def violated(self) -> tuple[str, ...]:
        """Everything that was seen to be broken."""
        return (*self.regression, *self.known)

    @property
    def red(self) -> bool:
        """Whether it ends the command with exit code 1."""
        return self.status in RED

    def to_json(self) -> dict[str, Any]:
        """As plain data; ``from_json`` takes it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """Take plain data back.

        Raises:
            ValueError: it is no cell.
        """
        cell = _as_cell().validate_python(data)
        if cell.status not in STATUSES:
            msg = f"unknown status {cell.status!r}"
            raise ValueError(msg)
        return cell


@functools.cache
def _as_cell() -> TypeAdapter[Cell]:
    return TypeAdapter(Cell)


@dataclass(frozen=True, slots=True)
class Flip:
    """Where a promise was broken or mended, between two releases that are next to each other.

    Attributes:
        before, after: releases on its two sides; those between them were not judged.
        direction: ``fixed`` (``before`` breaks it, ``after`` keeps it) or ``broken``.
    """

    scenario: str
    invariant: str
    before: str
    after: str
    direction: str


@dataclass(frozen=True, slots=True)
class Table:
    """All of it. Cells that are missing were not run."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)
    wanted: frozenset[tuple[str, str]] | None = None
    """Pairs (scenario, frontend) that were asked for; ``None``: all of them."""

    def cell(self, scenario: str, frontend: str) -> Cell | None:
        """The cell of a scenario and a frontend, if it was run."""
        return self.cells.get((scenario, frontend))

    def pairs(self) -> list[tuple[str, str]]:
        """Every pair that was asked for, row by row."""
        return [
            (row.id, column.id)
            for row in self.rows
            for column in self.columns
            if self.wanted is None or (row.id, column.id) in self.wanted
        ]

    def in_order(self) -> list[Cell]:
        """Cells that were run, row by row."""
        return [self.cells[pair] for pair in self.pairs() if pair in self.cells]

    def not_run(self) -> list[tuple[str, str]]:
        """Pairs that were asked for and have no cell."""
        return [pair for pair in self.pairs() if pair not in self.cells]

    def red(self) -> list[Cell]:
        """Red cells, row by row."""
        return [cell for cell in self.in_order() if cell.red]


def count_statuses(cells: Iterable[Cell]) -> dict[str, int]:
    """How many cells have each status; every status is there."""
    statuses = [cell.status for cell in cells]
    return {status: statuses.count(status) for status in STATUSES}


def releases_in_order(columns: Sequence[Column], releases: Sequence[str]) -> list[Column]:
    """The columns that are releases, oldest first; one for each."""
    by_release = {column.release: column for column in columns if column.released}
    return [by_release[release] for release in releases if release in by_release]
