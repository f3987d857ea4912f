"""Invariant request.add-once."""

from __future__ import annotations

from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import CallEnded, Record
from mock_engines.events import AddSeen

REFUSED = "DuplicateRequestId"


class AddOnce(RequestInvariant):
    """A call brings one ADD at most, and a refused one brings none.

    Statement: For every external id, there are at most as many ADDs at all engines together as
        there are calls with that id that were not refused as duplicates.
    Reason: A request that runs at two engines costs twice, and its two answers mix in one stream.
    Source: protocol page, sections 6.1 and 6.2.
    Limits: Calls that share an external id are counted together.
    """

    id = "request.add-once"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((AddSeen, CallEnded))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._adds: dict[str, list[Record]] = {}

    def see(self, record: Record) -> None:
        """Count when an ADD arrives, and when a call is refused."""
        event = record.event
        if isinstance(event, AddSeen):
            calls = self.calls.of_request(event.request_id, event.external_id)
            if not calls:
                return
            self.exercised += 1
            external = calls[0].event.external_id
            self._adds.setdefault(external, []).append(record)
            self._count(external, record)
        elif isinstance(event, CallEnded) and event.error == REFUSED:
            call = self.calls.calls.get(event.op)
            if call is not None:
                self.exercised += 1
                self._count(call.event.external_id, record)

    def _count(self, external: str, record: Record) -> None:
        adds = self._adds.get(external, [])
        calls = self.calls.of_request(external)
        refused = sum(call.end is not None and call.end.error == REFUSED for call in calls)
        allowed = len(calls) - refused
        if len(adds) > allowed:
            self.violate(
                f"id {external} was sent {len(adds)} times for {allowed} accepted calls",
                expected=f"at most {allowed} ADD for {external}",
                seen=f"{len(adds)} ADDs for {external}",
                witness=(*adds, record),
            )
