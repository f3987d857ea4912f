"""Stalls: one task or message is left out until nothing else can run.

A stall is the unit in which orders of events differ that matter: a reply that comes late, a task
that is not scheduled for a while. Leaving a callback out for one pick instead would change next
to nothing, since it stays at the head of the list. All schedules with one stall are as many as a
run has contested steps; those with two about the square of it.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from harness.sim.choosing import Labels, Ready
from harness.sim.handles import Entry, Task, label_of
from harness.strategies.base import Limits, Search, Seen, Strategy, schedules
from harness.strategies.held import Held
from harness.strategies.shuffle import spread

NOTED_MAX = 500
"""Contested steps of a run at most for which each single stall notes where others could be."""
_UNKNOWN = "?"
_NUMBER = re.compile(r"\d+")
PATIENCE = 1_000
"""Choices after which what is left out runs all the same: some tasks wait for it in circles."""


class StallStrategy(Strategy):
    """First in, first out, except that what would run at given choices is left out.

    Args:
        at: numbers of those choices, from 0.
        note: take note of what a further stall would leave out at each choice (``places``; empty
            where it would change nothing).
    """

    name = "stall"
    title = "all schedules with at most k stalls: one task or message left out each"

    def __init__(self, at: tuple[int, ...] = (), *, note: bool = False) -> None:
        super().__init__()
        self.at = at
        self._note = note
        self._left = frozenset(at)
        self._number = 0
        self._since: list[int] = []
        self._ready: Ready = []
        self._entry_at: Callable[[int], Entry] = self._ready.__getitem__
        self._names: list[str] = []

    def begin(self) -> None:
        """Count from 0 again."""
        self._number = 0
        self._since = []
        self.places = self._names = []

    def attach(self, ready: Ready) -> None:
        """What is left out is marked in the list itself."""
        self._ready = ready
        self._entry_at = ready.__getitem__  # a third of the time of an index into a loop's list

    def choose(self, n: int, labels: Labels | None = None) -> int:  # noqa: ARG002
        """Return the first that is not left out; the first of all if there is none."""
        number, since = self._number, self._since
        self._number = number + 1
        stalls = number in self._left
        entry_at = self._entry_at
        if not since and not stalls:  # mostly
            if self._note:
                self._names.append(_name_of(entry_at(0)))
            return 0
        index = 0
        # New entries come at the end, so those that are left out stand at the head.
        while index < n and entry_at(index).__class__ is Held:
            index += 1
        if index < len(since):  # those that have run meanwhile were the first ones
            del since[: len(since) - index]
        if stalls and index < n:
            self._ready[index] = Held(entry_at(index))
            since.append(number)
            index += 1
        if self._note:
            self._names.append(_name_of(entry_at(index)) if index < n else "")
        if index == n or (since and number - since[0] >= PATIENCE):
            return 0
        return index


def _name_of(entry: Entry) -> str:
    """As ``label_of``, which is asked for each choice of each run with a stall."""
    if entry.__class__ is partial:
        owner = getattr(entry.args[0], "__self__", None)
        if owner.__class__ is Task:
            return str(owner.get_name())
    return label_of(entry)


class StallSearch(Search):
    """First no stall, then one at every place, then two, up to ``limits.stalls``.

    Within a level each sort of task and connection is left out once before one is a second time,
    and each of a sort: neither a flood of messages nor a crowd of callers must use up the
    schedules. The rest of the order is
    shuffled by the seed. Where the second stall of a pair can be is known from the run with the
    first one alone; one that would change no order is left out.
    """

    name = "stall"
    title = StallStrategy.title
    divisible = True

    def __init__(
        self, seed: int = 0, limits: Limits | None = None, *, schedules: int | None = None
    ) -> None:
        """``schedules``: how many are played at most, where that is known."""
        super().__init__(seed, limits)
        self._schedules = schedules
        self._further = True
        """Whether the level behind this one will be reached."""
        self._asked: dict[tuple[int, ...], int] = {}
        self._places: dict[tuple[int, ...], tuple[str, ...]] = {}
        """What a further stall leaves out, by its place; of short runs only."""
        self._unseen: deque[tuple[int, ...]] = deque()
        self._plan = self._candidates()
        self._left = 1
        """Combinations of this level that are still to be decided."""
        self.level = 0
        self._played = 0

    def next(self) -> Strategy | None:
        """Return the next combination of stalls."""
        at = next(self._plan, None)
        if at is None:
            self.finished = True
            return None
        self._left -= 1
        self._unseen.append(at)
        further = self._further and len(at) < self.limits.stalls
        noted = further and self._asked.get((), 0) <= NOTED_MAX
        return StallStrategy(at, note=noted)

    def decided(self, unseen: int) -> bool:
        """Within a level; where the next one's stalls can be, all of this one must tell."""
        return unseen == 0 or self._left > 0

    def saw(self, seen: Seen) -> None:
        """Keep how long the run was: that is where a further stall can be."""
        self._played += 1
        at = self._unseen.popleft()
        if len(at) < self.limits.stalls:
            self._asked[at] = seen.asked
            self._places[at] = seen.places

    def told(self, *, held: bool) -> str:
        """Whether every combination was played, else which level it is at."""
        most = f"at most {self.limits.stalls} stall{'' if self.limits.stalls == 1 else 's'}"
        if self.finished:
            verb = "hold" if held else "were played"
            return f"all {schedules(self._played)} with {most} {verb}"
        return f"{schedules(self._played)} with {most} played, not all; at level {self.level}"

    def _candidates(self) -> Iterator[tuple[int, ...]]:
        yield ()
        bases: list[tuple[int, ...]] = [()]
        for level in range(1, self.limits.stalls + 1):
            self.level = level
            places = [
                (*base, place)
                for base in bases
                if base in self._asked
                for place in range(base[-1] + 1 if base else 0, self._asked[base])
                if self._name(base, place) != ""
            ]
            self._left = len(places)
            self._further = self._schedules is None or self._played + len(places) < self._schedules
            yield from spread(places, [self._kinds(at) for at in places], self.seed + level)
            bases = [at for at in self._asked if len(at) == level]

    def _name(self, base: tuple[int, ...], place: int) -> str:
        """What a stall at ``place`` leaves out there; ``""``: nothing, it changes no order."""
        names = self._places.get(base, ())
        return names[place] if place < len(names) else _UNKNOWN

    def _kinds(self, at: tuple[int, ...]) -> tuple[str, ...]:
        """What the stalls leave out: what sort of thing each, then which ones."""
        names = [self._name(at[:number], place) for number, place in enumerate(at)]
        return (*map(_sort, names), *names)


@functools.cache
def _sort(name: str) -> str:
    """What a task or a connection is, whoever's it is."""
    return "op" if name.startswith("op ") else _NUMBER.sub("", name)
