"""Where a strategy is asked: from the first step of a scenario to its end, and whom it is about.

What happens before the first step is the same start-up in every scenario, and what happens after
the end is judged by nobody: deciding there would spend schedules on nothing. A scenario may name
the tasks and messages whose order matters; everything else then runs as soon as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from harness.scenario.model import Scenario
from harness.sim.choosing import Labels, Ready
from harness.sim.component import HARNESS
from harness.sim.handles import Entry, ReadyList, SimTimerHandle, Task, label_of
from harness.sim.pipes import Pipe
from harness.strategies.base import Strategy
from harness.strategies.held import Held

PLUMBING = (
    HARNESS,
    "callback with_deadline.<locals>.wake",
    "callback _resolve_after",
    "callback Activity.end",
    "callback Endpoint._task_ended",
)
"""What touches nothing of the system: the harness on its way from one step to the next (each step
is played by a task of its own, whose moment is a choice), and engines that count their tasks."""
_MATTER = frozenset({Pipe, SimTimerHandle, Held})
"""Messages, timers, and what is left out: they matter where no names are given."""


class Window:
    """Asks a strategy where it is to decide, and goes first in, first out elsewhere.

    Args:
        strategy: who decides.
        names: patterns (``*``, ``?``) of the labels that its decisions are about; none = all.
        startup: ask during the start-up too: it is what the scenario is about.

    Attributes:
        asked: how often the strategy was asked.
        from_the_start: whether the start-up is among that.
    """

    def __init__(
        self, strategy: Strategy, names: Sequence[str] = (), *, startup: bool = False
    ) -> None:
        self.from_the_start = startup or strategy.from_the_start
        self._strategy = strategy
        self._decide = strategy.choose
        self._names = tuple(names)
        self._by_name = bool(names)
        self._named: dict[str, bool] = {}
        self._ready = ReadyList()
        self._entry_at: Callable[[int], Entry] = self._ready.__getitem__
        self._harness: Task[Any] | None = None
        """The task that plays the steps, once it was seen."""
        self._open = self.from_the_start
        self.asked = 0

    def begin(self) -> None:
        """Start again."""
        self._strategy.begin()
        self._open = self.from_the_start
        self._harness = None
        self._ready.looked = 0
        self.asked = 0

    def attach(self, ready: Ready) -> None:
        """Pass the list on."""
        # What is no loop's list does not tell what is new on it; it is looked at as it is now.
        self._ready = ready if isinstance(ready, ReadyList) else ReadyList(ready)
        # A third of the time of an index into a subclass of list.
        self._entry_at = self._ready.__getitem__
        self._strategy.attach(ready)

    def steps_begin(self) -> None:
        """Ask from now on."""
        self._open = True
        self._ready.looked = 0

    def steps_end(self) -> None:
        """Ask no longer, and let go of the tasks that the strategy may have taken note of."""
        self._open = False
        self._harness = None
        self._strategy.end()

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return what the strategy says, or the first where it is not asked."""
        if not self._open:
            return 0
        ready = self._ready
        if ready.tidy and not self._by_name:
            if ready.has_main and (place := self._main_at(n)):
                return place - 1
            self.asked += 1
            return self._decide(n, labels)
        # The first entry that does not matter runs at once. Only those are looked at that are new:
        # with all of them looked at for each choice, and by their labels, this was a tenth of a
        # run. And no function of its own: it is called for each choice of a campaign.
        by_name, entry_at = self._by_name, self._entry_at
        index = ready.looked - 1
        while (index := index + 1) < n:
            entry = entry_at(index)
            kind = entry.__class__
            if not by_name:
                if kind is partial:
                    owner = getattr(entry.args[0], "__self__", None)  # type: ignore[attr-defined]
                    if owner.__class__ is Task:
                        if owner is not self._harness and not self._is_harness(owner):
                            continue
                        ready.looked = index
                        return index
                elif kind in _MATTER:
                    continue
            if not self._matters(entry):
                ready.looked = index
                return index
        ready.looked = n - 1
        self.asked += 1
        return self._decide(n, labels)

    def _main_at(self, n: int) -> int:
        """Where the task that plays the steps is, counted from 1; 0: nowhere."""
        entry_at = self._entry_at
        self._ready.has_main = False
        # From the end, where it was put a moment ago.
        for index in range(n - 1, -1, -1):
            entry = entry_at(index)
            if entry.__class__ is partial:
                owner = getattr(entry.args[0], "__self__", None)
                if owner.__class__ is Task and (owner is self._harness or self._is_harness(owner)):
                    return index + 1
        return 0

    def _is_harness(self, task: Task[Any]) -> bool:
        """Whether it is the task that plays the steps, if that was not seen before."""
        if self._harness is not None or task.get_name() != HARNESS:
            return False
        self._harness = task
        return True

    def _matters(self, entry: Entry) -> bool:
        if entry.__class__ is Held:
            return True
        label = label_of(entry)
        found = self._named.get(label)
        if found is None:
            found = label not in PLUMBING and (
                not self._names or any(fnmatchcase(label, name) for name in self._names)
            )
            self._named[label] = found
        return found


def window_of(scenario: Scenario, strategy: Strategy) -> Window:
    """Where a strategy is asked in this scenario: what cannot start is about its start-up."""
    return Window(strategy, scenario.explore, startup=scenario.connect_fails)
