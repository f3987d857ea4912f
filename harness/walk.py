"""A replay laid out for a walk: every choice and every event, in the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.shrink.departures import Noting
from harness.sim.choosing import Chooser, Labels, Ready
from harness.sim.handles import label_of
from harness.strategies.window import PLUMBING
from harness.tape import Replayer
from harness.trace.events import Record
from harness.trace.render import render

NAMED_MAX = 4
"""How many of the other options of a choice are named."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One choice of the run.

    Attributes:
        number: its number on the tape, from 0.
        options: labels, in first-in-first-out order.
        index: which of them ran.
        departs: whether something is left behind from here on that would have run next.
    """

    number: int
    options: tuple[str, ...]
    index: int
    departs: bool

    @property
    def line(self) -> str:
        """The choice as text; a departure from FIFO order is marked by a star."""
        parts = [
            f"{'*' if self.departs else ' '} choice {self.number}: `{self.options[self.index]}`"
        ]
        if self.index and self.options[self.index] not in PLUMBING:
            parts.append(f"before {_some(self.options[: self.index])}")
        if after := self.options[self.index + 1 :]:
            parts.append(f"rather than {_some(after)}")
        return ", ".join(parts)


def _some(labels: Sequence[str]) -> str:
    named = [f"`{label}`" for label in labels[:NAMED_MAX]]
    more = len(labels) - NAMED_MAX
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Happened:
    """One event of the run, as a line of text."""

    line: str


Moment = Chosen | Happened


class Walk:
    """Looks on while a tape is played.

    Attributes:
        moments: choices and events, in order.
    """

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def chooser(self, inner: Replayer) -> Chooser:
        """What stands between the loop and the tape."""
        return _Looking(inner, self.moments)

    def event(self, record: Record) -> None:
        """Take note of an event."""
        self.moments.append(Happened(render(record)))


class _Tape:
    """A tape in the place of a strategy."""

    def __init__(self, tape: Replayer) -> None:
        self.choose = tape.choose
        self.attach = tape.attach

    def begin(self) -> None:
        """It is at its start."""


class _Looking:
    def __init__(self, tape: Replayer, moments: list[Moment]) -> None:
        self._noting = Noting(_Tape(tape), stalls=False)
        self._ready: Ready = []
        self._moments = moments
        self._number = 0

    def attach(self, ready: Ready) -> None:
        """Names are read off the entries."""
        self._ready = ready
        self._noting.attach(ready)

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return what the tape says."""
        options = tuple(label_of(entry) for entry in self._ready[:n])
        before = self._noting.left
        index = self._noting.choose(n, labels)
        departs = self._noting.left > before
        self._moments.append(Chosen(self._number, options, index, departs))
        self._number += 1
        return index
