"""Both sides of one case, side by side, until they differ."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.differential.moves import Arrive, Case, Move, Run, Spread
from harness.differential.sides import STATE_FIELDS, Canonical, Meeting, Side
from harness.shrink.ddmin import minimised
from harness.strategies.shuffle import Stream

SHRINK_TRIALS_MAX = 2000
_LOG = 24


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the sides part.

    Attributes:
        what: ``effect``, ``state`` or ``meeting``.
        before: the last effects on which both agreed, oldest first, with their ranks.
    """

    what: str
    rank: int
    model: str
    oracle: str
    before: tuple[str, ...]


@dataclass(slots=True)
class Sides:
    """Factories for one case."""

    model: Callable[[int, Case], Side]
    oracle: Callable[[int, Case, Meeting], Side]
    model_meeting: Callable[[int], Meeting]
    oracle_meeting: Callable[[int], Meeting]


class _Differs(Exception):  # noqa: N818 - an outcome, not an error
    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.what)
        self.difference = difference


class _Pair:
    """One rank on both sides."""

    def __init__(self, model: Side, oracle: Side) -> None:
        self.model = model
        self.oracle = oracle
        self.effect: Canonical = ("begin",)
        self.inbox: deque[Arrive] = deque()
        self.results: tuple[Any, Any] | None = None

    def can_run(self) -> bool:
        match self.effect[0]:
            case "block":
                return bool(self.inbox)
            case "enter":
                return self.results is not None
            case "end":
                return False
        return True

    def answers(self) -> tuple[Any, Any]:
        if self.effect[0] == "enter":
            assert self.results is not None
            results, self.results = self.results, None
            return results
        if self.effect[0] in ("block", "poll") and self.inbox:
            arrived = self.inbox.popleft()
            return self.model.item(arrived), self.oracle.item(arrived)
        return None, None


class Play:
    """One case on both sides."""

    def __init__(self, case: Case, sides: Sides, seen: Counter[str]) -> None:
        self._case = case
        self._seen = seen
        self._meetings = (sides.model_meeting(case.ranks), sides.oracle_meeting(case.ranks))
        self._pairs = [
            _Pair(sides.model(rank, case), sides.oracle(rank, case, self._meetings[1]))
            for rank in range(case.ranks)
        ]
        self._notice: tuple[int, int] | None = None
        # Put into words only if they are needed: there are many.
        self._log: deque[tuple[int, Any]] = deque(maxlen=_LOG)
        self.effects = 0

    def run(self, moves: Sequence[Move]) -> Difference | None:
        """Make the moves; what differed first, if anything did."""
        try:
            for move in moves:
                self._move(move)
            self._end()
        except _Differs as outcome:
            return outcome.difference
        finally:
            for pair in self._pairs:
                pair.model.close()
                pair.oracle.close()
        return None

    def _move(self, move: Move) -> None:
        match move:
            case Arrive():
                self._pairs[move.rank].inbox.append(move)
            case Spread():
                if self._notice is not None:
                    for rank, pair in enumerate(self._pairs):
                        pair.inbox.append(Arrive(rank, "restart", self._notice))
            case Run():
                self._go_on(move)

    def _end(self) -> None:
        waiting = [p for p in self._pairs if p.effect[0] == "enter" and p.results is None]
        if waiting and not any(pair.can_run() for pair in self._pairs):
            alike = len({pair.effect[2] for pair in waiting}) == 1
            self._seen[f"ends stuck in {'one place' if alike else 'different places'}"] += 1
        elif all(pair.effect[0] in ("block", "end") for pair in self._pairs):
            self._seen["ends at rest"] += 1
        else:
            self._seen["ends at work"] += 1

    def _go_on(self, move: Run) -> None:
        stream = Stream(move.seed)
        for _ in range(move.turns):
            ready = [rank for rank, pair in enumerate(self._pairs) if pair.can_run()]
            if not ready:
                return
            self._turn(ready[stream.below(len(ready))])

    def _turn(self, rank: int) -> None:
        """One effect that others can notice, and what is sent before it."""
        pair = self._pairs[rank]
        if pair.effect[0] in ("block", "poll") and pair.inbox:
            self._log.append((rank, pair.inbox[0]))
        answers = pair.answers()
        while True:
            model, oracle = pair.model.advance(answers[0]), pair.oracle.advance(answers[1])
            self._compare("effect", rank, model, oracle)
            self._compare("state", rank, pair.model.state(), pair.oracle.state())
            self.effects += 1
            self._log.append((rank, model))
            self._count(model)
            if model[0] != "send":
                break
            if model[2] == "start":
                self._notice = (model[3], rank)
                if self._case.spreads:
                    self._move(Spread())
            answers = (None, None)
        pair.effect = model
        if model[0] == "enter":
            self._meet(rank, model, oracle)

    def _meet(self, rank: int, model: Canonical, oracle: Canonical) -> None:
        results = [
            meeting.enter(rank, effect[1], effect[2], effect[3])
            for meeting, effect in zip(self._meetings, (model, oracle), strict=True)
        ]
        self._compare("meeting", rank, sorted(results[0]), sorted(results[1]))
        for released in results[0]:
            self._pairs[released].results = (results[0][released], results[1][released])

    def _compare(self, what: str, rank: int, model: Any, oracle: Any) -> None:
        if model == oracle:
            return
        if what == "state":
            places = [n for n, (a, b) in enumerate(zip(model, oracle, strict=True)) if a != b]
            texts = [
                ", ".join(f"{STATE_FIELDS[n]} {side[n]!r}" for n in places)
                for side in (model, oracle)
            ]
        else:
            texts = [_told(model), _told(oracle)]
        raise _Differs(Difference(what, rank, texts[0], texts[1], self._before()))

    def _before(self) -> tuple[str, ...]:
        return tuple(
            f"rank {rank} takes {entry.what} {entry.args}"
            if isinstance(entry, Arrive)
            else f"rank {rank}: {_told(entry)}"
            for rank, entry in self._log
        )

    def _count(self, effect: Canonical) -> None:
        match effect[0]:
            case "enter" | "end":
                self._seen[" ".join(map(str, effect[: 3 if effect[0] == "enter" else 1]))] += 1
            case "send":
                what = "refused rows" if effect[2] == "rows" and effect[5] else effect[2]
                self._seen[f"send {what}"] += 1
                if effect[2] == "reply" and effect[5]:
                    self._seen[f"call failed: {effect[5]}"] += 1


def _told(effect: Any) -> str:
    return repr(effect) if not isinstance(effect, tuple) else " ".join(map(str, effect))


def shrunk(case: Case, sides: Sides) -> tuple[Case, Difference]:
    """Leave out moves while the sides still differ, somehow."""
    trials = 0

    def differs(moves: Sequence[Move]) -> bool:
        nonlocal trials
        trials += 1
        if trials > SHRINK_TRIALS_MAX:
            return False
        return Play(case, sides, Counter()).run(moves) is not None

    smaller = replace(case, moves=tuple(minimised(case.moves, differs)))
    difference = Play(smaller, sides, Counter()).run(smaller.moves)
    assert difference is not None
    return smaller, difference
