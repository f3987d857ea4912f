"""A uniform random walk over the options, from a generator that is written out here.

Python's ``random`` is left alone: its streams are its own business, and a tape of 2030 must be
made again from its seed. SplitMix64 is the generator (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014); its state is one 64-bit counter.
"""

from __future__ import annotations

from harness.sim.choosing import Labels
from harness.strategies.base import Strategy

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_SPENT = 1
"""What is left of a draw of 64 bits once all are used."""


def mix64(value: int) -> int:
    """Scramble 64 bits (SplitMix64's output function)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class RandomStrategy(Strategy):
    """Each option is as likely as any other; seed and schedule number decide."""

    name = "random"
    title = "random walk: each option equally likely, from the seed"

    def __init__(self, seed: int = 0, schedule: int = 0) -> None:
        super().__init__(seed, schedule)
        # Mixed twice, so that neighbouring seeds and schedules share no stretch of the stream.
        self._start = mix64((mix64((seed + _GOLDEN) & _MASK) + schedule * _GOLDEN) & _MASK)
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
            self._state = (self._state + _GOLDEN) & _MASK
            bits = mix64(self._state) | (1 << 64)
        self._bits = bits >> 16
        return (bits & 0xFFFF) * n >> 16
