"""Numbers from a seed, the same on every Python and for ever.

Python's ``random`` is left alone: its streams are its own business, and a campaign of 2030 must
be made again from its seed. SplitMix64 is the generator (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014); its state is one 64-bit counter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(value: int) -> int:
    """Scramble 64 bits (SplitMix64's output function)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


class Stream:
    """Draws from one seed and the number of a schedule."""

    __slots__ = ("_state",)

    def __init__(self, seed: int, number: int = 0) -> None:
        self._state = start_of(seed, number)

    def below(self, n: int) -> int:
        """Draw an index below ``n`` (bias below n / 2**64)."""
        self._state = (self._state + GOLDEN) & MASK
        return mix64(self._state) * n >> 64


def start_of(seed: int, number: int) -> int:
    """Mixed twice, so that neighbouring seeds and numbers share no stretch of the stream."""
    return mix64((mix64((seed + GOLDEN) & MASK) + number * GOLDEN) & MASK)


def spread(items: Sequence[T], kinds: Sequence[tuple[str, ...]], seed: int) -> Iterator[T]:
    """Yield each item once: one of each kind, then a second of each, and so on.

    ``kinds`` has one for each item, from the general to the particular: within a kind it is the
    next word that counts. All else follows from the seed.
    """
    of_kind: dict[str, tuple[list[T], list[tuple[str, ...]]]] = {}
    for item, (kind, *rest) in zip(items, kinds, strict=True):
        mine, theirs = of_kind.setdefault(kind, ([], []))
        mine.append(item)
        theirs.append(tuple(rest))
    rows: list[Iterator[T]] = []
    for number, kind in enumerate(shuffled(list(of_kind), seed), start=1):
        mine, theirs = of_kind[kind]
        below = start_of(seed, number)
        rows.append(spread(mine, theirs, below) if theirs[0] else shuffled(mine, below))
    while rows:
        still = []
        for row in rows:
            for item in islice(row, 1):
                yield item
                still.append(row)
        rows = still


def shuffled(items: Sequence[T], seed: int) -> Iterator[T]:
    """Yield each item once, in an order by the seed, made as far as it is asked for."""
    stream = Stream(seed)
    moved: dict[int, T] = {}
    for left in range(len(items), 0, -1):
        drawn = stream.below(left)
        found = moved.get(drawn, items[drawn])
        moved[drawn] = moved.pop(left - 1, items[left - 1])
        yield found
