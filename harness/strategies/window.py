"""Where a strategy is asked: from the first step of a scenario to its end, and whom it is about.

What happens before the first step is the same start-up in every scenario, and what happens after
the end is judged by nobody: deciding there would spend schedules on nothing. A scenario may name
the tasks and messages whose order matters; everything else then runs as soon as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from harness.sim.choosing import Labels, Ready
from harness.sim.handles import Entry, label_of
from harness.strategies.base import Strategy
from harness.strategies.held import Held

PLUMBING = (
    "main",
    "callback with_deadline.<locals>.wake",
    "callback all_done.<locals>.wake",
    "callback Activity.end",
    "callback Endpoint._task_ended",
)
"""What touches nothing of the system: the harness on its way from one step to the next (each step
is played by a task of its own, whose moment is a choice), and engines that count their tasks."""


class Window:
    """Asks a strategy where it is to decide, and goes first in, first out elsewhere.

    Args:
        strategy: who decides.
        names: patterns (``*``, ``?``) of the labels that its decisions are about; none = all.

    Attributes:
        asked: how often the strategy was asked.
    """

    def __init__(self, strategy: Strategy, names: Sequence[str] = ()) -> None:
        self._strategy = strategy
        self._names = tuple(names)
        self._named: dict[str, bool] = {}
        self._ready: Ready = []
        self._open = strategy.from_the_start
        self.asked = 0

    def begin(self) -> None:
        """Start again."""
        self._strategy.begin()
        self._open = self._strategy.from_the_start
        self.asked = 0

    def attach(self, ready: Ready) -> None:
        """Pass the list on."""
        self._ready = ready
        self._strategy.attach(ready)

    def steps_begin(self) -> None:
        """Ask from now on."""
        self._open = True

    def steps_end(self) -> None:
        """Ask no longer, and let go of the tasks that the strategy may have taken note of."""
        self._open = False
        self._strategy.end()

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return what the strategy says, or the first where it is not asked."""
        if not self._open:
            return 0
        for index in range(n):
            if not self._matters(self._ready[index]):
                return index
        self.asked += 1
        return self._strategy.choose(n, labels)

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
