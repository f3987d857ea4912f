"""Where a schedule departs from FIFO order, in words.

A departure is a choice at which something is left behind that would have run next. Something
that is left out until nothing else can run is one departure, however much runs before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.sim.choosing import Labels, Ready
from harness.sim.handles import Entry, label_of
from harness.strategies.held import Held
from harness.strategies.window import PLUMBING
from harness.tape import Deciding


@dataclass(frozen=True, slots=True)
class Departure:
    """One departure from FIFO order.

    Attributes:
        choice: its number on the tape, from 0.
        ran: label of what ran at that choice.
        before: label of what would have run in FIFO order.
        more: how much else ran before that did.
    """

    choice: int
    ran: str
    before: str
    more: int = 0

    @property
    def line(self) -> str:
        """``at choice 17 `coordinator: outputs` ran before `coordinator: commands```."""
        others = f" and {self.more} more" if self.more else ""
        return f"at choice {self.choice} `{self.ran}`{others} ran before `{self.before}`"


@dataclass(slots=True)
class _Behind:
    """Something that was left behind and has not run yet."""

    entry: Entry
    choice: int
    ran: str
    before: str
    more: int = 0


@dataclass(slots=True)
class _Notes:
    """All that was left behind, in order, and which of it has not run yet."""

    found: list[_Behind] = field(default_factory=list)
    open: list[_Behind] = field(default_factory=list)


def _is_plumbing(entry: Entry) -> bool:
    """Whether it is the harness's own way from step to step, which nothing can overtake."""
    return label_of(entry) in PLUMBING


class Noting:
    """Writes down where another one that decides departs from FIFO order.

    Args:
        strategy: who decides.
        stalls: it is made of stalls, and only those are departures: what a scenario does not name
            in ``explore`` overtakes what it names anyway.
    """

    def __init__(self, strategy: Deciding, *, stalls: bool) -> None:
        self._strategy = strategy
        self._stalls = stalls
        self._ready: Ready = []
        self._position = 0
        self._notes = _Notes()

    def begin(self) -> None:
        """Start again."""
        self._strategy.begin()
        self._position = 0
        self._notes = _Notes()

    def attach(self, ready: Ready) -> None:
        """Names are read off the entries."""
        self._ready = ready
        if (attach := getattr(self._strategy, "attach", None)) is not None:
            attach(ready)

    def steps_begin(self) -> None:
        """Pass it on."""
        if (begin := getattr(self._strategy, "steps_begin", None)) is not None:
            begin()

    def steps_end(self) -> None:
        """Pass it on."""
        if (end := getattr(self._strategy, "steps_end", None)) is not None:
            end()

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return what the other one says."""
        index = self._strategy.choose(n, labels)
        self._note(index, n)
        self._position += 1
        return index

    @property
    def left(self) -> int:
        """How many there are so far."""
        return len(self._notes.found)

    @property
    def departures(self) -> tuple[Departure, ...]:
        """Those of the run so far, in order."""
        return tuple(
            Departure(one.choice, one.ran, one.before, one.more) for one in self._notes.found
        )

    def _note(self, index: int, n: int) -> None:
        ready, notes = self._ready, self._notes
        chosen = ready[index]
        # What is not there any more was taken back, or ran where nothing was to be chosen.
        notes.open = [
            one
            for one in notes.open
            if one.entry is not chosen and any(entry is one.entry for entry in ready[:n])
        ]
        for one in notes.open:
            one.more += not _is_plumbing(chosen)
        new = [
            _Behind(entry, self._position, ran=label_of(chosen), before=label_of(entry))
            for entry in self._new(index, n)
        ]
        notes.found += new
        notes.open += new

    def _new(self, index: int, n: int) -> list[Entry]:
        """What is left behind from this choice on."""
        ready = self._ready[:n]
        left: list[Entry]
        if self._stalls:
            left = [entry for entry in ready if entry.__class__ is Held]
        else:
            left = [] if _is_plumbing(ready[index]) else ready[:index]
        known = [one.entry for one in self._notes.open]
        return [entry for entry in left if not any(entry is one for one in known)]
