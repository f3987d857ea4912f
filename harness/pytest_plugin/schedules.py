"""Plays a story in one order of events after the other, and says how to have a bad one again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from harness.strategies import Limits, make_search
from harness.strategies.base import Redundant, Seen
from harness.strategies.window import Window
from harness.tape import FORMAT, Recorder, Replayer, Tape
from harness.worlds import SimWorld, World

T = TypeVar("T")
SHOWN_MAX = 2_000
"""Characters of a tape that are shown."""


class Schedules:
    """Which orders of events a story is played in."""

    def __init__(self, count: int, strategy: str | None, seed: int, tape: str | None) -> None:
        """Check them.

        Raises:
            ValueError: there is no such strategy, a search that needs a scenario's trace, an
                unreadable tape, or a number that is too small.
        """
        if count < 1:
            msg = f"schedules is at least 1, not {count}"
            raise ValueError(msg)
        if tape is not None and (count != 1 or strategy is not None):
            msg = "a tape is one order of events: no schedules or strategy beside it"
            raise ValueError(msg)
        self._count = count
        self._strategy = strategy or ("fifo" if count == 1 else "auto")
        self._seed = seed
        self._tape = None if tape is None else Tape.from_json({"format": FORMAT, "choices": tape})
        search = make_search(self._strategy, seed, Limits(schedules=count))
        if search.wants_history:
            msg = f"the strategy {self._strategy!r} is for scenarios alone"
            raise ValueError(msg)
        self._search = search

    def play(self, run: Callable[[World], T]) -> T:
        """Run in each order; whatever is raised ends it, with a note on the order.

        Returns:
            What the last run returned.
        """
        __tracebackhide__ = True
        if self._tape is not None:
            return run(SimWorld(Replayer(self._tape, strict=False)))
        value, played = None, 0
        while played < self._count and (strategy := self._search.next()) is not None:
            window = Window(strategy, startup=True)
            recorder = Recorder(window)
            try:
                value = run(SimWorld(recorder))
            except Redundant:
                continue
            except BaseException as error:
                self._note(error, recorder.tape, played)
                raise
            self._search.saw(Seen(window.asked, 0, tuple(strategy.places)))
            played += 1
        assert played, "each search has a first schedule"
        return cast("T", value)

    def _note(self, error: BaseException, tape: Tape, played: int) -> None:
        """Say in which order it happened."""
        text = _shortest(tape)
        if not text:
            return  # FIFO order, which is what a plain run has
        which = f"schedule {played + 1} of strategy {self._strategy}, seed {self._seed}"
        if len(text) > SHOWN_MAX:
            error.add_note(f"simulate: {which}")
            return
        error.add_note(f"simulate: {which}; the same order again: simulate(story, tape={text!r})")


def _shortest(tape: Tape) -> str:
    """The choices as text, without those at the end that go first in, first out."""
    choices = list(tape.choices)
    while choices and choices[-1][0] == 0:
        choices.pop()
    return Tape(tuple(choices)).choices_as_text()
