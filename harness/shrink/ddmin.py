"""The fewest of some things that still make a test fail.

Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE
Transactions on Software Engineering 28 (2002); here without the tests of subsets alone, which
rarely fail where parts depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimised(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Leave out as many items as possible; with one less of those left nothing fails.

    Args:
        items: with all of them it fails.
        fails: whether it fails with these; ``False`` once nothing more may be tried.
    """
    kept = list(items)
    size = (len(kept) + 1) // 2
    while size and kept:
        removed = False
        for start in range(0, len(kept), size)[::-1]:
            fewer = kept[:start] + kept[start + size :]
            if len(fewer) < len(kept) and fails(fewer):
                kept, removed = fewer, True
        if size == 1 and not removed:
            break
        size = size if size == 1 else (size + 1) // 2
    return kept
