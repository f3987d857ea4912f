"""What happens to a set of ranks, from a seed: plain values that can be left out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.strategies.shuffle import Stream

T = TypeVar("T")

MODES = ("abort", "wait", "keep")
TAGS: tuple[list[str] | None, ...] = (
    None,
    ["weights"],
    ["kv_cache"],
    ["scheduling"],
    ["scheduling", "kv_cache"],
    ["weights", "kv_cache"],
    ["kv_cache", "unheard-of"],
    [],
)
ASKED = ("is_sleeping", "is_scheduler_paused", "release_kv_cache_memory", "no_such_method")
RANKS_MAX = 4
LONG = 120
"""Turns in which ranks come from one exchange to the next, if the steps between can be chosen."""
LONG_INTERVAL = 360
"""The same if there are 32 of them."""


@dataclass(frozen=True, slots=True)
class Arrive:
    """Something is put into the input queue of a rank.

    ``what`` is ``add`` (request id, wave relative to the rank's, tokens, client), ``abort``
    (request ids), ``start`` (wave relative to the rank's, excluded rank), ``call`` (client, call
    id, method, arguments) or ``shutdown`` (timeout in seconds).
    """

    rank: int
    what: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """The last start notice reaches all ranks as START_DP_WAVE, as a coordinator does it."""


@dataclass(frozen=True, slots=True)
class Run:
    """Ranks go on: so many times one of those that can, drawn from a seed."""

    turns: int
    seed: int


Move = Arrive | Spread | Run


@dataclass(frozen=True, slots=True)
class Case:
    """One sequence.

    Attributes:
        sync_interval: steps between exchanges, where a release lets it be chosen (0.30).
        batch: requests that run together.
        tokens: of each request in a step.
        spreads: each start notice reaches all ranks as START_DP_WAVE, and whoever is called is
            called on every rank: as in a deployment without faults.
    """

    number: int
    ranks: int
    has_coordinator: bool
    publishes: bool
    sync_interval: int
    batch: int
    tokens: int
    spreads: bool
    moves: tuple[Move, ...]


def make_case(seed: int, number: int, *, short_interval: bool, pauses: Sequence[str]) -> Case:
    """Return sequence ``number`` of a seed.

    Args:
        seed: of all sequences.
        number: of this one.
        short_interval: the release lets the steps between exchanges be chosen.
        pauses: utility methods that pause, as the release has them.
    """
    maker = _Maker(Stream(seed, number), LONG if short_interval else LONG_INTERVAL, pauses)
    ranks = 1 + maker.below(RANKS_MAX)
    has_coordinator = maker.below(8) > 0
    maker.spreads = maker.below(2) > 0
    return Case(
        number,
        ranks,
        has_coordinator,
        publishes=has_coordinator and maker.below(4) > 0,
        sync_interval=maker.of((2, 3, 5, 16)),
        batch=maker.of((1, 2, 256)),
        tokens=1 + maker.below(2),
        spreads=maker.spreads,
        moves=maker.moves(ranks),
    )


class _Maker:
    def __init__(self, stream: Stream, long: int, pauses: Sequence[str]) -> None:
        self.below = stream.below
        self._long = long
        self._pauses = pauses
        self.spreads = False
        self._requests = 0
        self._calls = 0

    def of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def moves(self, ranks: int) -> tuple[Move, ...]:
        found: list[Move] = []
        for _ in range(3 + self.below(12)):
            found += self._next(ranks)
            found.append(self._run())
        if self.below(6) == 0:
            for rank in range(ranks):
                if self.below(4):
                    found.append(Arrive(rank, "shutdown", (self.of((0.0, 5.0)),)))
            found += [*self._next(ranks), self._run()]
        return (*found, Run(self._long, self.below(1 << 30)))

    def _run(self) -> Run:
        return Run(self.of((0, 2, 8, 40, self._long)), self.below(1 << 30))

    def _next(self, ranks: int) -> list[Move]:
        rank = self.below(ranks)
        match self.below(16):
            case 0 | 1 | 2 | 3 | 4:
                adds: list[Move] = [self._add(rank) for _ in range(1 + self.below(3))]
                # Until 0.32 it is the frontend that has the others woken.
                wakes = [Arrive(n, "start", (0, rank)) for n in range(ranks) if self.spreads]
                return [*adds, *wakes]
            case 5:
                ids = [f"r{self.below(self._requests + 1)}" for _ in range(1 + self.below(2))]
                return [Arrive(rank, "abort", tuple(ids))]
            case 6 | 7:
                return [Spread()]
            case 8:
                exclude = None if self.below(2) else self.below(ranks)
                return [Arrive(rank, "start", (self._delta(), exclude))]
            case 9 | 10 | 11:
                return self._everybody(ranks, self._pause())
            case 12 | 13:
                return self._everybody(ranks, self._resume())
            case 14:
                call = self.of((self._pause(), self._resume()))
                return self._everybody(ranks, call) if self.spreads else [self._call(rank, call)]
            case _:
                return [self._call(rank, (self.of(ASKED),))]

    def _delta(self) -> int:
        return self.of((0, 0, 0, -1, 1, 2))

    def _add(self, rank: int) -> Arrive:
        name = f"r{self._requests}"
        self._requests += 1
        tokens = self.of((1, 2, 5, 20))
        return Arrive(rank, "add", (name, self._delta(), tokens, self.below(2)))

    def _pause(self) -> tuple[Any, ...]:
        method = self.of(self._pauses)
        if method == "sleep":
            return (method, self.below(3), self.of(MODES))
        mode = self.of((*MODES, *MODES, *MODES, "none-of-these"))
        return (method, mode, bool(self.below(2)))

    def _resume(self) -> tuple[Any, ...]:
        return self.of((("resume_scheduler",), ("wake_up", self.of(TAGS)), ("barrier",)))

    def _everybody(self, ranks: int, call: tuple[Any, ...]) -> list[Move]:
        """One call to all ranks, in some order, with delays, now and then without one of them."""
        order = list(range(ranks))
        moves: list[Move] = []
        while order:
            rank = order.pop(self.below(len(order)))
            if self.spreads or self.below(12):
                moves.append(self._call(rank, call))
            if self.below(3) == 0:
                moves.append(Run(self.of((1, 3, 10)), self.below(1 << 30)))
        return moves

    def _call(self, rank: int, call: tuple[Any, ...]) -> Arrive:
        self._calls += 1
        return Arrive(rank, "call", (self.below(2), self._calls, call[0], call[1:]))
