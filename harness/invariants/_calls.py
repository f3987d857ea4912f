"""Follows generations as their callers see them. Not an invariant."""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from harness.invariants._run import EventTypes
from harness.trace.events import (
    AbortRequested,
    CallEnded,
    CallStarted,
    CancelRequested,
    Record,
)

_SUFFIX = re.compile(r"-[0-9a-f]{8}$")
"""Random end of an internal id (protocol page, 6.4)."""


class Call(msgspec.Struct):
    """One generation.

    Attributes:
        left: the caller left while it was open.
        abort_asked: the caller asked for its abort while it was open.
    """

    event: CallStarted
    started: Record
    left: Record | None = None
    abort_asked: Record | None = None
    ended: Record | None = None
    end: CallEnded | None = None

    @property
    def op(self) -> str:
        """Its step id."""
        return self.event.op

    @property
    def open(self) -> bool:
        """Not ended for its caller."""
        return self.ended is None

    @property
    def wanted(self) -> bool:
        """Open, and nobody asked for its end."""
        return self.open and self.left is None and self.abort_asked is None

    @property
    def gone(self) -> Record | None:
        """The record that says that no caller waits any more."""
        return self.left or self.ended


class CallBook:
    """All generations, by op and by external id."""

    HANDLES: ClassVar[EventTypes] = (CallStarted, CallEnded, CancelRequested, AbortRequested)

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self._by_external: dict[str | None, list[Call]] = {}

    def feed(self, record: Record) -> None:
        """Take one record."""
        event = record.event
        match event:
            case CallStarted():
                call = Call(event, record)
                self.calls[event.op] = call
                self._by_external.setdefault(event.external_id, []).append(call)
            case CallEnded():
                ended = self.calls.get(event.op)
                if ended is not None and ended.open:
                    ended.ended, ended.end = record, event
            case CancelRequested():
                left = self.calls.get(event.op)
                if left is not None and left.open and left.left is None:
                    left.left = record
            case _:
                assert isinstance(event, AbortRequested)
                for op in event.ops:
                    for asked in self._named(op):
                        if asked.open and asked.abort_asked is None:
                            asked.abort_asked = record

    def _named(self, name: str) -> list[Call]:
        """Aborts name ops, or external ids where a scenario aborts what it never began.

        What a client is told is the external id, and that is whoever's has it now: a later call's,
        too. (With two frontends the same id may be the other one's, who is not told.)
        """
        call = self.calls.get(name)
        return self._by_external.get(name if call is None else call.event.external_id, [])

    def of_request(self, request_id: str, external_id: str | None = None) -> list[Call]:
        """The calls that a request on the wire may belong to, in order of their start.

        Several only if they share an external id.
        """
        known = self._by_external
        if external_id in known:
            return known[external_id]
        if request_id in known:
            return known[request_id]
        return known.get(_SUFFIX.sub("", request_id), [])

    def nobody_waits(self, request_id: str, external_id: str | None) -> bool:
        """Whether a request is somebody's, and all whose it may be left or had an answer."""
        calls = self.of_request(request_id, external_id)
        return bool(calls) and all(call.gone is not None for call in calls)
