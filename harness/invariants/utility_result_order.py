"""Invariant utility.result-order."""

from __future__ import annotations

from typing import Any

from harness.invariants._fanouts import UNREADABLE, FanOut, FanOutBook, engine_order, parse
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record, UtilityEnded


def replied_values(fan: FanOut, order: tuple[int, ...]) -> list[Any] | None:
    """What the engines answered, in engine order; ``None`` if one did not, or failed."""
    values = []
    for engine in order:
        if fan.call_at(engine) is None:
            continue
        reply = fan.first_reply(engine)
        value = UNREADABLE if reply is None or reply.failure is not None else parse(reply.value)
        if value is UNREADABLE:
            return None
        values.append(value)
    return values


def flattened(values: list[Any]) -> list[Any]:
    """Join arrays; what is no array counts as one item (protocol page, 9.3)."""
    joined: list[Any] = []
    for value in values:
        if isinstance(value, list):
            joined.extend(value)
        else:
            joined.append(value)
    return joined


class ResultOrder(RunInvariant):
    """Per-engine results come in engine order.

    Statement: Whenever a utility call with one result per engine succeeds, its results are the
        replies of the engines, in engine order, none left out; for ``collective_rpc`` the same
        holds for the flattened list.
    Reason: Callers match results to ranks by position; a list in order of arrival tells rank 1's
        state as rank 0's.
    Source: protocol page, sections 2 (ordering trap), 9.1 and 9.3.
    Limits: Engine order is the order of identity bytes, or of indices in bootstrapped mode.
        Values that are no plain literals are not compared.
    """

    id = "utility.result-order"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((UtilityEnded,))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.fans = context.shelf.book(FanOutBook, context)
        self._order = engine_order(context)

    def see(self, record: Record) -> None:
        """Judge a list of results."""
        event = record.event
        if not isinstance(event, UtilityEnded) or event.outcome != "finished":
            return
        fan = self.fans.fans.get(event.op)
        if fan is None or fan.ended is not record or fan.ambiguous or len(fan.calls) < 2:
            return
        raw = fan.event.via == "raw"
        # What all agree on is one value, whatever the method.
        if not raw and (event.method != "collective_rpc" or fan.event.via != "method"):
            return
        values = replied_values(fan, self._order)
        seen = parse(event.value)
        if values is None or not isinstance(seen, list):
            return
        expected = values if raw else flattened(values)
        self.exercised += 1
        if seen != expected:
            self.violate(
                f"{event.method} did not return its results in engine order",
                expected=f"{expected!r} (engines {list(self._order)})",
                seen=f"{seen!r}",
                witness=(*(replies[0] for replies in fan.replies.values()), record),
            )
