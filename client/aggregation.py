"""How one answer is made of the answers of all engines.

Consensus is stricter than Python was: engines that disagree about their state are a control
plane fault that the caller must see (PR #43429). An empty list cannot come from a connected
client, and is an error rather than an answer.

Source: Rust ``engine-core-client/src/client.rs``, PR #43429; protocol page, section 9.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from client.errors import InconsistentUtilityResults
from client.protocol.shown import cut

T = TypeVar("T")


def shown(values: Sequence[Any]) -> str:
    """Print values as upstream does, e.g. ``[true, false]``; not at length."""
    return cut(f"[{', '.join(_shown_one(value) for value in values)}]")


def _shown_one(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case None:
            return "nil"
        case list() | tuple():
            return shown(value)
        case _:
            return repr(value)


class Aggregation:
    """The rules. Values come in engine order."""

    def consensus(self, method: str, values: Sequence[T]) -> T:
        """Return the value on which all engines agree.

        Raises:
            InconsistentUtilityResults: they do not, or there is none.
        """
        if not values or any(not same(value, values[0]) for value in values):
            raise InconsistentUtilityResults(method, shown(values))
        return values[0]

    def conjunction(self, method: str, values: Sequence[bool]) -> bool:
        """Return whether every engine said true.

        Raises:
            InconsistentUtilityResults: there is no value.
        """
        if not values:
            raise InconsistentUtilityResults(method, shown(values))
        return all(values)

    def flatten(self, values: Sequence[Any]) -> list[Any]:
        """Concatenate array results; anything else, nil too, counts as one item."""
        items: list[Any] = []
        for value in values:
            if isinstance(value, list | tuple):
                items.extend(value)
            else:
                items.append(value)
        return items


def same(left: Any, right: Any) -> bool:
    """Equality that keeps ``True`` and ``1`` apart, as the wire does."""
    return type(left) is type(right) and bool(left == right)
