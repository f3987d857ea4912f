"""Which violation has to stay while a failure is made small."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.attempt import Attempt, expectation_name
from harness.verdict import VIOLATED

_STEP = re.compile(re.escape(expectation_name(0)).replace("0", r"([0-9]{1,9})"))


@dataclass(frozen=True, slots=True)
class Broken:
    """How a promise was broken in one run.

    Attributes:
        witness: trace numbers of the events that show it.
    """

    message: str
    expected: str
    seen: str
    witness: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Promise:
    """An invariant by its id, or ``expectation at step N``, as failure files call it."""

    name: str

    @property
    def step(self) -> int | None:
        """The step whose expectation it is; ``None``: it is an invariant."""
        found = _STEP.fullmatch(self.name)
        return None if found is None else int(found[1])

    def at(self, step: int) -> Promise:
        """The same expectation, after steps before it were left out."""
        return Promise(expectation_name(step))

    def broken_in(self, attempt: Attempt) -> Broken | None:
        """How a run broke it; ``None`` if it did not."""
        for verdict in attempt.played.verdicts:
            if verdict.invariant == self.name and verdict.verdict == VIOLATED:
                return Broken(verdict.message, verdict.expected, verdict.seen, verdict.witness)
        for result in attempt.played.story.results:
            outcome = result.outcome
            if expectation_name(result.step) == self.name and outcome.status == VIOLATED:
                return Broken(self.name, outcome.expected, outcome.seen, outcome.witness)
        return None
