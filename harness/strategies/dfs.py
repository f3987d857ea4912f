"""Every schedule, but for those that differ only in the order of what does not meet.

A stateless search: each schedule runs from the beginning, with the choices of the last one up to
the deepest place at which something is left to try. Sleep sets (Godefroid, "Partial-Order Methods
for the Verification of Concurrent Systems", LNCS 1032, 1996) leave out schedules that would only
swap neighbours of different parts: an engine's steps and the messages that reach it, those of
another engine, those of the client.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.sim.choosing import Labels, Ready
from harness.sim.component import part_of
from harness.sim.handles import Entry
from harness.sim.pipes import Pipe
from harness.strategies.base import Limits, Redundant, Search, Seen, Strategy, schedules


@dataclass(slots=True)
class Node:
    """One contested step on the way to the end.

    Attributes:
        options: how many entries were ready.
        chosen: which of them runs.
        tried: those whose subtrees have been explored.
        asleep: those that are not worth trying here.
    """

    options: int
    chosen: int
    tried: list[int] = field(default_factory=list)
    asleep: frozenset[int] = frozenset()

    def left(self) -> int | None:
        """The first option that is still to be tried."""
        done = {self.chosen, *self.tried, *self.asleep}
        return next((index for index in range(self.options) if index not in done), None)


@dataclass(frozen=True, slots=True)
class _Sleeper:
    """An entry, and what it would do: a pipe stands on the list for one message after another."""

    entry: Entry
    head: object
    part: str | None

    @classmethod
    def of(cls, entry: Entry) -> _Sleeper:
        head = entry.head if isinstance(entry, Pipe) else None
        return cls(entry, head, part_of(entry))

    def is_still(self, entry: Entry) -> bool:
        return self.entry is entry and (not isinstance(entry, Pipe) or entry.head is self.head)

    def meets(self, part: str | None) -> bool:
        """Whether it may touch what an entry of that part touches."""
        return self.part is None or part is None or self.part == part


class DfsStrategy(Strategy):
    """One schedule of the search: a given beginning, then the first that is not asleep.

    Args:
        path: the beginning, node by node.

    Attributes:
        path: all nodes, once the run is over.
    """

    name = "dfs"
    title = "exhaustive, without schedules that swap what does not meet"

    def __init__(self, path: tuple[Node, ...] = (), *, reduce: bool = True) -> None:
        super().__init__()
        self._given = path
        self._reduce = reduce
        self._ready: Ready = []
        self.begin()

    def begin(self) -> None:
        """Go back to the beginning."""
        self._sleepers: list[_Sleeper] = []
        self.path: list[Node] = []

    def end(self) -> None:
        """Wake everybody."""
        self._sleepers.clear()

    def attach(self, ready: Ready) -> None:
        """Parts are read off the entries."""
        self._ready = ready

    def choose(self, n: int, labels: Labels | None = None) -> int:  # noqa: ARG002
        """Return what the beginning says, then the first that is not asleep.

        Raises:
            Redundant: all of them are.
        """
        depth = len(self.path)
        ready = self._ready
        asleep = self._asleep(n)
        if depth < len(self._given):
            node = self._given[depth]
        else:
            free = next((index for index in range(n) if index not in asleep), None)
            if free is None:
                raise Redundant
            node = Node(n, free, [], asleep)
        self.path.append(node)
        if not self._reduce:
            return node.chosen
        part = part_of(ready[node.chosen])
        # What was explored here need not come right behind what it does not meet.
        self._sleepers += [_Sleeper.of(ready[index]) for index in node.tried]
        self._sleepers = [sleeper for sleeper in self._sleepers if not sleeper.meets(part)]
        return node.chosen

    def _asleep(self, n: int) -> frozenset[int]:
        """Which of the ready entries sleep; those that have gone are forgotten."""
        if not self._sleepers:
            return frozenset()
        found: dict[int, _Sleeper] = {}
        for sleeper in self._sleepers:
            for index in range(n):
                if sleeper.is_still(self._ready[index]):
                    found[index] = sleeper
        self._sleepers = list(found.values())
        return frozenset(found)


class DfsSearch(Search):
    """Depth first, from the last choice backwards.

    Args:
        reduce: leave out what only swaps neighbours that do not meet; without it every schedule
            is played, which is there to test the reduction.

    Attributes:
        played: schedules that were judged.
    """

    name = "dfs"
    title = DfsStrategy.title
    wants_history = True

    def __init__(self, seed: int = 0, limits: Limits | None = None, *, reduce: bool = True) -> None:
        super().__init__(seed, limits)
        self._reduce = reduce
        self._last: DfsStrategy | None = None
        self._histories: set[int] = set()
        self.played = 0

    def next(self) -> Strategy | None:
        """Return the next schedule, or ``None`` once every one has been explored."""
        path = () if self._last is None else self._next_path()
        if path is None:
            self.finished = True
            return None
        self._last = DfsStrategy(path, reduce=self._reduce)
        return self._last

    def _next_path(self) -> tuple[Node, ...] | None:
        assert self._last is not None
        path = self._last.path
        while path:
            node = path[-1]
            option = node.left()
            if option is not None:
                again = Node(node.options, option, [*node.tried, node.chosen], node.asleep)
                return (*path[:-1], again)
            path.pop()
        return None

    def saw(self, seen: Seen) -> None:
        """Count schedules and histories."""
        self.played += 1
        self._histories.add(seen.history)

    def told(self, *, held: bool) -> str:
        """Whether every schedule was played, else how many; and how they differed."""
        many, kinds = schedules(self.played), len(self._histories)
        histories = f"{kinds:,} distinct histor{'y' if kinds == 1 else 'ies'}"
        if self.finished:
            return f"all {many} of this scenario {'hold' if held else 'were played'}, {histories}"
        return f"{many} played, not all; {histories}"
