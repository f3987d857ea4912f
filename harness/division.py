"""One simulated campaign in pieces: blocks of schedules that anybody may play, put together.

The search itself stays in one place and is asked in its own order, as far ahead as it can tell
(``Search.decided``). So the schedules, their merged result and the digest are those of one process
that plays all of them, however many play and whoever is first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from harness.awake import CLOCK
from harness.results import ScenarioResult
from harness.runner import Campaign, RunOptions, broken, prepare
from harness.scenario.loader import LoadedScenario
from harness.strategies import Seen, Strategy
from harness.tally import Part, Tally
from harness.targets.base import TargetError

BLOCK_S = 0.5
"""Seconds that a block should take: long beside its way to a worker, short beside a campaign."""
BLOCK_MAX = 1024
"""Schedules of a block at most."""
FIRST_BLOCK = 8
"""Schedules of a block as long as nobody knows how long one takes."""
AHEAD = 4
"""Blocks for each worker that may wait for one before them."""


@dataclass(frozen=True, slots=True)
class Block:
    """Schedules in a row."""

    number: int
    strategies: tuple[Strategy, ...]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What is left of a campaign once its first violation is known: the failure file.

    Attributes:
        result: of the campaign, without it.
        strategy: decides the violating schedule.
        digest: of that schedule.
    """

    number: int
    result: ScenarioResult
    strategy: Strategy
    digest: str


Piece = Block | Conclusion


@dataclass(frozen=True, slots=True)
class BlockPlayed:
    """What came of a block.

    Attributes:
        part: of its schedules up to the first violation.
        seen: for each of these what the search wants to know.
        violated: whether the last of these shows a violation.
        seconds: how long they took on the wall's clock.
    """

    part: Part
    seen: tuple[Seen, ...]
    violated: bool
    seconds: float


Outcome = BlockPlayed | ScenarioResult
"""What came of a piece; a result ends the campaign there."""


# --- where a piece is played ------------------------------------------------------------------


def play_piece(loaded: LoadedScenario, options: RunOptions, piece: Piece) -> Outcome:
    """Play a piece of the campaign of this scenario.

    Raises:
        KeyboardInterrupt: interrupted; nothing of the run is left behind.
    """
    base, campaign = prepare(loaded, options)
    if campaign is None:
        return base
    try:
        if isinstance(piece, Block):
            return _play_block(campaign, piece)
        attempt, _ = campaign.play_as(piece.strategy)
        if attempt.digest != piece.digest:
            msg = "the schedule that shows the violation went otherwise when it was played again"
            raise RuntimeError(msg)
        return campaign.concluded(piece.result, attempt)
    except TargetError as error:
        return broken(base, error)


def _play_block(campaign: Campaign, block: Block) -> BlockPlayed:
    began = time.monotonic()  # noqa: TID251 - how large blocks are decides no result
    tally, digests, seen, violated = Tally(), [], [], False
    for strategy in block.strategies:
        attempt, one = campaign.play_as(strategy)
        tally.add(Part.of(attempt))
        digests.append(attempt.digest)
        seen.append(one)
        if attempt.violated:
            violated = True
            break
    seconds = time.monotonic() - began  # noqa: TID251
    return BlockPlayed(tally.part(tuple(digests)), tuple(seen), violated, seconds)


# --- where the pieces come from, and come together --------------------------------------------


class Division:
    """Hands out the pieces of one campaign and puts their outcomes together.

    Args:
        loaded: the scenario.
        options: of the whole campaign; the target must be simulated, the search divisible.

    Attributes:
        result: of the campaign, once it is over.
    """

    def __init__(self, loaded: LoadedScenario, options: RunOptions) -> None:
        self._options = options
        self._base, self._campaign = prepare(loaded, options)
        self._began = _now()
        self._search = options.search()
        self._tally = Tally()
        self._numbers = 0
        """Pieces handed out."""
        self._next = 0
        """The piece whose outcome is to be taken next."""
        self._handed = 0
        """Schedules handed out."""
        self._all = False
        """Whether there are no more blocks."""
        self._out: dict[int, Block] = {}
        self._came: dict[int, Outcome] = {}
        self._last: int | None = None
        """The lowest piece that is known to end the campaign."""
        self._conclusion: Conclusion | None = None
        self._each_s: float | None = None
        self.result = self._base if self._campaign is None else None

    @property
    def over(self) -> bool:
        """Whether the result is there."""
        return self.result is not None

    @property
    def seconds_left(self) -> float | None:
        """Until the time limit of the campaign; ``None``: it has none."""
        limit = self._options.timeout_s
        return None if limit is None else limit - (_now() - self._began)

    def needs(self, number: int) -> bool:
        """Whether the outcome of a piece may still count."""
        if self.over or number < self._next:
            return False
        return self._last is None or number <= self._last

    def take(self, workers: int) -> Piece | None:
        """Return a piece to play, or ``None``: nothing is left, or others must come in first.

        Args:
            workers: how many play at once.
        """
        if self.over:
            return None
        if self._conclusion is not None:
            piece, self._conclusion = self._conclusion, None
            return piece
        if self._all or self._last is not None:
            return None
        if self._numbers - self._next >= AHEAD * workers:
            return None
        strategies = self._decide(self._size(workers))
        if not strategies:
            self._settle()
            return None
        block = Block(self._numbers, strategies)
        self._numbers += 1
        self._handed += len(strategies)
        self._out[block.number] = block
        return block

    def put(self, number: int, outcome: Outcome) -> None:
        """Take what came of a piece; once for each, in any order."""
        if not self.needs(number):
            return
        self._came[number] = outcome
        if isinstance(outcome, ScenarioResult) or outcome.violated:
            self._last = number
        while not self.over and (outcome_or_none := self._came.pop(self._next, None)) is not None:
            self._add(outcome_or_none)
        self._settle()

    def _decide(self, most: int) -> tuple[Strategy, ...]:
        """Ask the search, as far ahead as it can tell."""
        found: list[Strategy] = []
        budget = self._options.budget_s
        if self._handed and budget is not None and _now() - self._began >= budget:
            self._all = True
            return ()
        while len(found) < most:
            unseen = self._handed + len(found) - self._tally.played
            if not self._search.decided(unseen):
                break
            strategy = self._search.next()
            if strategy is None:
                self._all = True
                break
            found.append(strategy)
        self._all |= self._handed + len(found) >= self._options.schedules
        return tuple(found)

    def _size(self, workers: int) -> int:
        left = self._options.schedules - self._handed
        # Blocks get smaller towards the end, so that all workers come to it together.
        fair = -(-left // (2 * workers))
        if self._each_s is None:
            return max(1, min(FIRST_BLOCK, fair))
        return max(1, min(BLOCK_MAX, int(BLOCK_S / max(self._each_s, 1e-6)), fair))

    def _add(self, outcome: Outcome) -> None:
        """Take the outcome of the next piece."""
        if isinstance(outcome, ScenarioResult):
            self._end(outcome)
            return
        block = self._out.pop(self._next)
        self._next += 1
        for seen in outcome.seen:
            self._search.saw(seen)
        self._tally.add(outcome.part)
        self._each_s = outcome.seconds / max(1, outcome.part.played)
        if not outcome.violated:
            return
        # Whatever comes after the first violation is forgotten; what is left is one more piece.
        self._came.clear()
        self._out.clear()
        strategy = block.strategies[outcome.part.played - 1]
        self._conclusion = Conclusion(
            self._numbers, self._sum(held=False), strategy, outcome.part.digests[-1]
        )
        self._next, self._last = self._numbers, None
        self._numbers += 1
        self._all = True

    def _settle(self) -> None:
        """End the campaign if all that there was has come in, without a violation."""
        if self._all and not self.over and self._next == self._numbers:
            self._end(self._sum(held=True))

    def _sum(self, *, held: bool) -> ScenarioResult:
        assert self._campaign is not None
        return self._campaign.summed(self._base, self._tally, self._search, held=held)

    def _end(self, result: ScenarioResult) -> None:
        self.result = replace(result, duration_s=round(_now() - self._began, 3))


def _now() -> float:
    """Seconds in which we were awake: they decide how blocks are cut, never what is in them."""
    return CLOCK.now()
