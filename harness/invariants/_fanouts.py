"""Follows utility calls: which call id belongs to which op, and what became of it.

The wire does not name ops. A white-box target tells the call ids of a fan-out as it registers
them; a black box is read through the frontend's counter: one call takes one block of ids, one
id for each engine in engine order (protocol page, 9.1). Not an invariant.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from client.events import (
    HealthFailed,
    UtilityRegistered,
    UtilityReleased,
    UtilityReplyDropped,
    UtilitySettled,
)
from client.protocol.ids import FENCE_METHOD, RANKS_MAX, identity_from_rank
from harness.invariants._run import EventTypes
from harness.invariants.base import RunContext
from harness.trace.events import CancelRequested, Record, UtilityEnded, UtilityStarted
from mock_engines.events import UtilityReplySent, UtilitySeen

WIRE_METHODS = {
    "is_paused": ("is_scheduler_paused",),
    "pause": ("pause_scheduler", "pause_generation"),
    "resume": ("resume_scheduler",),
    "start_profile": ("profile",),
    "stop_profile": ("profile",),
}
"""API method → method on the wire, where they differ."""
UNEXPECTED_REPLY = frozenset({"utility-dropped", "unexpected-utility-reply"})
"""Ids of the log pattern "dropping output for unexpected utility call"."""
TIMEOUT_ERROR = "UtilityCallTimeout"
PARSED_MAX = 64
"""Values that are kept parsed."""


class Unreadable:
    """Stands for a value whose text is no literal."""


UNREADABLE = Unreadable()


@functools.lru_cache(maxsize=PARSED_MAX)
def parse(text: str) -> Any:
    """Read the ``repr`` of a plain value; tuples become lists, as JSON has none.

    Kept: several invariants read the same replies, in every schedule. Do not change the result.
    """
    try:
        return _listed(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return UNREADABLE


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def engine_order(context: RunContext) -> tuple[int, ...]:
    """Ranks in the order of results: by identity bytes, or by index if bootstrapped.

    With those that come later; a call at fewer engines keeps the order.
    """
    return context.once(_engine_order)


def _engine_order(context: RunContext) -> tuple[int, ...]:
    ranks = (*context.ranks, *context.scenario.topology.later_list)
    if context.scenario.topology.transport == "bootstrapped":
        return tuple(sorted(ranks))
    fit = [rank for rank in ranks if 0 <= rank < RANKS_MAX]
    return tuple(sorted(fit, key=identity_from_rank))


@dataclass(slots=True)
class FanOut:
    """One utility call of a caller.

    Attributes:
        calls: call id → engine, in the order in which they became known.
        seen: call id → UTILITY at the engine.
        replies: call id → replies that carried it, by any engine.
        released: call id → its waiter was removed, went with a reply that was dropped, or with
            a client that failed.
        ambiguous: another call of the same method began before either was seen, so that the
            ids may be the other's.
    """

    event: UtilityStarted
    started: Record
    calls: dict[int, int] = field(default_factory=dict)
    registered: dict[int, Record] = field(default_factory=dict)
    seen: dict[int, Record] = field(default_factory=dict)
    replies: dict[int, list[Record]] = field(default_factory=dict)
    settled: dict[int, Record] = field(default_factory=dict)
    released: dict[int, Record] = field(default_factory=dict)
    left: Record | None = None
    ended: Record | None = None
    end: UtilityEnded | None = None
    ambiguous: bool = False

    @property
    def op(self) -> str:
        """Its step id."""
        return self.event.op

    @property
    def wire_methods(self) -> tuple[str, ...]:
        """Names that it may have on the wire."""
        return WIRE_METHODS.get(self.event.method, (self.event.method,))

    @property
    def settled_by_frontend(self) -> bool:
        """It ended on its own: finished or failed, not cancelled and not timed out."""
        return (
            self.end is not None
            and self.end.outcome in {"finished", "failed"}
            and self.end.error != TIMEOUT_ERROR
            and self.left is None
        )

    def call_at(self, engine: int) -> int | None:
        """The call id for an engine."""
        for call_id, owner in self.calls.items():
            if owner == engine:
                return call_id
        return None

    def first_reply(self, engine: int) -> UtilityReplySent | None:
        """What an engine answered first, if exactly one answer carries its call id.

        Of several answers the frontend takes the first that arrives, which the wire does not
        tell where different engines sent them.
        """
        call_id = self.call_at(engine)
        replies = self.replies.get(call_id, []) if call_id is not None else []
        events = [r.event for r in replies if isinstance(r.event, UtilityReplySent)]
        if not events or len({event.engine for event in events}) > 1:
            return None
        return events[0]


class FanOutBook:
    """All utility calls; fences of the harness are left out."""

    HANDLES: ClassVar[EventTypes] = (
        UtilityStarted,
        UtilityEnded,
        CancelRequested,
        UtilitySeen,
        UtilityReplySent,
        UtilityRegistered,
        UtilitySettled,
        UtilityReleased,
        UtilityReplyDropped,
        HealthFailed,
    )

    def __init__(self, context: RunContext) -> None:
        self._width = max(len(context.ranks), 1)
        self._by_block: dict[int, FanOut] = {}
        self._last: FanOut | None = None
        self.fans: dict[str, FanOut] = {}
        self.by_call: dict[int, FanOut] = {}
        self.foreign: set[int] = set()
        """Call ids that were registered for no op known here."""

    def feed(self, record: Record) -> None:
        """Take one record."""
        event = record.event
        if event.__class__ is UtilityReplySent:  # a flood is of these
            answered = self.by_call.get(event.call_id)
            if answered is not None:
                answered.replies.setdefault(event.call_id, []).append(record)
            return
        match event:
            case UtilityStarted() | UtilityEnded() | CancelRequested():
                self._caller(record, event)
            case UtilityRegistered():
                self._register(record, event)
            case UtilitySeen():
                self._see(record, event)
            case UtilitySettled():
                fan = self.by_call.get(event.call_id)
                if fan is not None:
                    fan.settled.setdefault(event.call_id, record)
            case UtilityReleased() | UtilityReplyDropped():
                fan = self.by_call.get(event.call_id)
                if fan is not None:
                    fan.released.setdefault(event.call_id, record)
            case _:
                assert isinstance(event, HealthFailed)
                # A client that fails lets go of all its waiters, without an event for each.
                for fan in self.fans.values():
                    for call_id in fan.registered:
                        fan.released.setdefault(call_id, record)

    def _caller(
        self, record: Record, event: UtilityStarted | UtilityEnded | CancelRequested
    ) -> None:
        if isinstance(event, UtilityStarted):
            self.fans[event.op] = FanOut(event, record)
            return
        fan = self.fans.get(event.op)
        if fan is None or fan.ended is not None:
            return
        if isinstance(event, UtilityEnded):
            fan.ended, fan.end = record, event
        elif fan.left is None:
            fan.left = record

    def _register(self, record: Record, event: UtilityRegistered) -> None:
        if event.method == FENCE_METHOD:
            return
        last = self._last
        if (
            last is not None
            and last.ended is None
            and event.method in last.wire_methods
            and event.engine not in last.calls.values()
            and event.call_id - 1 in last.calls
        ):
            fan: FanOut | None = last  # a fan-out registers all its waiters in one go
        else:
            open_fans = [f for f in self.fans.values() if f.ended is None]
            fan = self._choose(open_fans, event.method, event.engine)
        if fan is None:
            self.foreign.add(event.call_id)
            return
        self._last = fan
        fan.calls[event.call_id] = event.engine
        fan.registered[event.call_id] = record
        self.by_call[event.call_id] = fan

    def _see(self, record: Record, event: UtilitySeen) -> None:
        if event.call_id in self.foreign:
            return
        fan = self.by_call.get(event.call_id)
        if fan is None:
            block = (event.call_id - 1) // self._width
            fan = self._by_block.get(block)
            if fan is None or event.method not in fan.wire_methods:
                fans = list(self.fans.values())
                still = [f for f in fans if f.ended is None]
                fan = self._choose(still, event.method, event.engine) or self._choose(
                    fans, event.method, event.engine
                )
            if fan is not None:
                self._by_block[block] = fan
        if fan is None:
            return
        fan.calls.setdefault(event.call_id, event.engine)
        fan.seen.setdefault(event.call_id, record)
        self.by_call[event.call_id] = fan

    @staticmethod
    def _choose(fans: Sequence[FanOut], method: str, engine: int) -> FanOut | None:
        fitting = [f for f in fans if method in f.wire_methods and engine not in f.calls.values()]
        fresh = [f for f in fitting if not f.calls]
        if len(fresh) > 1:
            for fan in fresh:
                fan.ambiguous = True
        return next(iter(fitting), None)
