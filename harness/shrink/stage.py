"""Plays one scenario as often as it takes: with given stalls, by a tape, or in trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.attempt import Again, Attempt
from harness.play import PlaySpec, play, schedule_digest
from harness.shrink.departures import Departure, Noting
from harness.sim.choosing import Labels
from harness.sim.errors import SimulationError
from harness.sim.handles import label_of
from harness.strategies.base import Strategy
from harness.strategies.fifo import FifoStrategy
from harness.strategies.held import Held
from harness.strategies.stall import StallStrategy
from harness.strategies.window import Window, window_of
from harness.tape import Recorder, Tape
from harness.targets.base import TargetError
from harness.targets.target import Target
from harness.worlds import SimWorld
from mock_engines.outlets import ScriptError

UNPLAYABLE = (TargetError, SimulationError, ScriptError)
"""What a run raises that cannot be judged: a candidate that does shows nothing."""
Stalls = tuple[int, ...]
"""Numbers of choices at which something is left out, counted where strategies are asked."""


class NamedStalls(StallStrategy):
    """Notes what would run in FIFO order, each time it is asked.

    Attributes:
        heads: those labels, in order.
    """

    name = "stall"

    def begin(self) -> None:
        """Forget the last run."""
        super().begin()
        self.heads: list[str] = []

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Do what the given stalls say."""
        first = next((one for one in self._ready[:n] if one.__class__ is not Held), None)
        self.heads.append(label_of(self._ready[0] if first is None else first))
        return super().choose(n, labels)


class Sparse(Strategy):
    """First in, first out, except at a few choices.

    Args:
        answers: index by number of the choice, from the beginning of the run; where there are
            fewer options the last one is taken.
    """

    name = "sparse"
    title = "first in, first out, except at a few choices"
    from_the_start = True

    def __init__(self, answers: Mapping[int, int]) -> None:
        super().__init__()
        self.answers = dict(answers)
        self._number = 0

    def begin(self) -> None:
        """Count from 0 again."""
        self._number = 0

    def choose(self, n: int, labels: Labels | None = None) -> int:  # noqa: ARG002
        """Return the answer for this number, or 0."""
        index = self.answers.get(self._number, 0)
        self._number += 1
        return min(index, n - 1)


@dataclass(frozen=True, slots=True)
class StalledRun:
    """One run with given stalls.

    Attributes:
        heads: what would have run in FIFO order at each choice that was asked for.
        opened: number of the first of those choices on the tape.
    """

    attempt: Attempt
    stalls: Stalls
    heads: tuple[str, ...]
    opened: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """What was left out, by its label."""
        return tuple(self.heads[at] for at in self.stalls if at < len(self.heads))


class _Opening:
    """A window that remembers how many choices came before it was opened."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.begin = window.begin
        self.attach = window.attach
        self.steps_end = window.steps_end
        self._choices = 0
        self.opened = 0

    def steps_begin(self) -> None:
        """Open it."""
        if not self._window.from_the_start:
            self.opened = self._choices
        self._window.steps_begin()

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return what it says."""
        self._choices += 1
        return self._window.choose(n, labels)


def stalls_of(strategy: Strategy) -> Stalls | None:
    """What a schedule is made of, if it is FIFO order but for some stalls; else ``None``."""
    if isinstance(strategy, StallStrategy):
        return strategy.at
    return () if isinstance(strategy, FifoStrategy) else None


class Stage:
    """One scenario on one target.

    Args:
        steps_max: of the loop, behind which a simulated run is given up; ``None``: the loop's own.
    """

    def __init__(self, spec: PlaySpec, target: Target, steps_max: int | None = None) -> None:
        self.spec = spec
        self._target = target
        self._steps_max = steps_max

    @property
    def ordered(self) -> bool:
        """Whether the order of events is ours to choose."""
        return self._target.deterministic

    def stalled(self, at: Stalls) -> StalledRun:
        """Play in FIFO order but for these stalls.

        Raises:
            TargetError, SimulationError, ScriptError: the run could not be judged.
        """
        strategy = NamedStalls(at)
        window = _Opening(self._inner(strategy))
        attempt = self._play(Recorder(window))
        return StalledRun(attempt, at, tuple(strategy.heads), window.opened)

    def sparse(self, answers: Mapping[int, int]) -> Attempt:
        """Play in FIFO order but for these choices. Raises as above."""
        return self._play(Recorder(Sparse(answers)))

    def decided(self, strategy: Strategy) -> Attempt:
        """Play as a strategy decides. Raises as above."""
        return self._play(self._window(strategy))

    def trial(self) -> Attempt:
        """Play where nobody chooses. Raises as above."""
        return Attempt(play(self.spec, self._target.world(None)), None, "")

    def departures(self, attempt: Attempt, at: Stalls | None) -> tuple[Departure, ...]:
        """Where a run left FIFO order: played once more, with a look at what was left behind."""
        assert attempt.tape is not None
        strategy = Again(attempt.tape) if at is None else self._inner(StallStrategy(at))
        noting = Noting(strategy, stalls=at is not None)
        play(self.spec, self._target.world(Recorder(noting)))
        return noting.departures

    def labelled(self, tape: Tape) -> Tape:
        """The same run once more, recording what each option is called."""
        recorder = Recorder(Again(tape))
        play(self.spec, self._target.world(recorder, record_labels=True))
        return recorder.tape

    def _inner(self, strategy: Strategy) -> Window:
        return window_of(self.spec.scenario, strategy)

    def _window(self, strategy: Strategy) -> Recorder:
        return Recorder(self._inner(strategy))

    def _play(self, recorder: Recorder) -> Attempt:
        world = self._target.world(recorder)
        if self._steps_max is not None and isinstance(world, SimWorld):
            world.limit_steps(self._steps_max)
        played = play(self.spec, world)
        tape = recorder.tape
        return Attempt(played, tape, schedule_digest(tape, played))
