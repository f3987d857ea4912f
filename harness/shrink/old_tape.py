"""What a stored tape says about its run, without playing it, and how to follow it loosely.

After a change of the code a tape does not fit any more: a message more, and every number behind
it has moved. Labels mostly stay, so a tape that has them can still be followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.sim.choosing import Labels, Ready
from harness.sim.handles import label_of
from harness.strategies.base import Strategy
from harness.strategies.window import PLUMBING
from harness.tape import Tape

LOOK_AHEAD = 16
"""Choices of the tape that may have gone since."""


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was left behind.

    Attributes:
        choice: its number on the tape.
        name: its label; ``""`` on a tape without labels.
    """

    choice: int
    name: str


def left_behind(tape: Tape) -> list[Left]:
    """Where a tape departs from FIFO order, as far as labels tell things apart."""
    if tape.labels is None:
        return [Left(number, "") for number, (choice, _) in enumerate(tape.choices) if choice]
    found: list[Left] = []
    behind: list[str] = []
    for number, ((choice, _), names) in enumerate(zip(tape.choices, tape.labels, strict=True)):
        # New entries come at the end, so what was left behind stands at the head, in order.
        known = 0
        while known < len(behind) and names[known : known + 1] == (behind[known],):
            known += 1
        last = known if names[choice] in PLUMBING else max(known, choice)
        found += [Left(number, name) for name in names[known:last]]
        behind = [name for place, name in enumerate(names[:last]) if place != choice]
    return found


class Following(Strategy):
    """Chooses what a tape chose, by label; first in, first out where it says nothing."""

    name = "following"
    title = "what an old tape chose, by label"
    from_the_start = True

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        chosen = tape.chosen
        self._chosen: Sequence[str] = () if chosen is None else chosen
        self._options = [frozenset(names) for names in tape.labels or ()]
        self._place = 0
        self._ready: Ready = []

    def begin(self) -> None:
        """Go back to the beginning of the tape."""
        self._place = 0

    def attach(self, ready: Ready) -> None:
        """Labels are read off the entries."""
        self._ready = ready

    def choose(self, n: int, labels: Labels | None = None) -> int:  # noqa: ARG002
        """Return the first option called like what the tape chose here, or a little later."""
        names = [label_of(entry) for entry in self._ready[:n]]
        for place in range(self._place, min(self._place + LOOK_AHEAD, len(self._chosen))):
            wanted = self._chosen[place]
            if wanted in names and self._alike(place, names):
                self._place = place + 1
                return names.index(wanted)
        return 0

    def _alike(self, place: int, names: Sequence[str]) -> bool:
        """Whether at least half of what could be chosen then can be chosen now."""
        options = self._options[place]
        return 2 * len(options.intersection(names)) >= len(options)
