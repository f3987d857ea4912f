"""A uniform random walk over the options."""

from __future__ import annotations

from harness.sim.choosing import Labels
from harness.strategies.base import Strategy
from harness.strategies.shuffle import GOLDEN, MASK, mix64, start_of

_SPENT = 1
"""What is left of a draw of 64 bits once all are used."""


class RandomStrategy(Strategy):
    """Each option is as likely as any other; seed and schedule number decide."""

    name = "random"
    title = "random walk: each option equally likely, from the seed"
    from_the_start = True

    def __init__(self, seed: int = 0, schedule: int = 0) -> None:
        super().__init__(seed, schedule)
        self._start = start_of(seed, schedule)
        self._state = self._start
        self._bits = _SPENT

    def begin(self) -> None:
        """Start the stream again."""
        self._state = self._start
        self._bits = _SPENT

    def choose(self, n: int, labels: Labels | None = None) -> int:  # noqa: ARG002
        """Draw an index below ``n``: 16 bits, scaled (bias below n / 65,536)."""
        bits = self._bits
        if bits == _SPENT:
            # One mix feeds four choices: this is a tenth of a run's time. The bit above the 64
            # tells when they are used up.
            self._state = (self._state + GOLDEN) & MASK
            bits = mix64(self._state) | (1 << 64)
        self._bits = bits >> 16
        return (bits & 0xFFFF) * n >> 16
