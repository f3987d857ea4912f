"""Invariant request.abort-only-to-owner."""

from __future__ import annotations

from client.events import RequestRegistered
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import AbortSeen, AddSeen


class AbortOnlyToOwner(RequestInvariant):
    """An ABORT goes to the engine that has the request, behind its ADD, once.

    Statement: For every id that an ABORT names at an engine, this engine received the ADD of that
        id before, no other engine did instead, and no earlier ABORT at this engine named it.
    Reason: An engine ignores an ABORT of an id that it does not know, so that one sent to another
        engine, or ahead of the ADD, leaves the request running for nobody.
    Source: protocol page, sections 6.2, 8.2, 8.3 and 22 (5); vllm#52671.
    Limits: An ABORT for a request whose ADD never arrived anywhere is legal: a send that was cut
        short may have reached its engine. Where callers share one id, as many ABORTs are legal as
        there are callers.
    """

    id = "request.abort-only-to-owner"
    handles = event_types((RequestRegistered, AbortSeen, AddSeen))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._orphans: dict[str, list[tuple[int, Record]]] = {}
        self._owners: dict[str, int] = {}

    def see(self, record: Record) -> None:
        """Judge each id of an ABORT; those without ADD wait for one."""
        event = record.event
        match event:
            case RequestRegistered():
                self._owners[event.request_id] = event.engine
            case AbortSeen():
                for request_id in event.request_ids:
                    self.exercised += 1
                    self._abort(record, event.engine, request_id)
            case _:
                assert isinstance(event, AddSeen)
                self._late_add(record, event)

    def _sharing(self, request_id: str) -> int:
        """How many callers may mean this id."""
        calls = self.calls.of_request(request_id)
        if calls and calls[0].event.external_id != request_id:
            return 1  # an internal id of its own
        return max(len(calls), 1)

    def _abort(self, record: Record, engine: int, request_id: str) -> None:
        episode = self.adds.at(request_id, engine)
        if episode is None:
            known = self.adds.by_id.get(request_id)
            if known and self._sharing(request_id) == 1:
                self._misdirected(request_id, engine, known[-1].engine, known[-1].add, record)
            self._orphan(record, engine, request_id)
            return
        if len(episode.aborts) > self._sharing(request_id):
            self.violate(
                f"request {request_id} was aborted {len(episode.aborts)} times",
                expected=f"1 ABORT for {request_id} at engine {engine}",
                seen=f"{len(episode.aborts)} ABORTs for {request_id} at engine {engine}",
                witness=(episode.add, *episode.aborts),
            )

    def _orphan(self, record: Record, engine: int, request_id: str) -> None:
        """No ADD at this engine so far."""
        if self._sharing(request_id) > 1:
            return
        owner = self._owners.get(request_id)
        if owner is not None and owner != engine:
            self._misdirected(request_id, engine, owner, record, record)
        orphans = self._orphans.setdefault(request_id, [])
        orphans.append((engine, record))
        elsewhere = [(e, r) for e, r in orphans if e != engine]
        if elsewhere:
            self._misdirected(request_id, engine, elsewhere[0][0], elsewhere[0][1], record)
        here = [r for e, r in orphans if e == engine]
        if len(here) > 1:
            self.violate(
                f"request {request_id} was aborted {len(here)} times",
                expected=f"at most 1 ABORT for {request_id} at engine {engine}",
                seen=f"{len(here)} ABORTs for {request_id} at engine {engine}",
                witness=here,
            )

    def _late_add(self, record: Record, event: AddSeen) -> None:
        if self._sharing(event.request_id) > 1:
            return  # another caller's abort, whose own ADD never left
        for engine, abort in self._orphans.get(event.request_id, ()):
            if engine != event.engine:
                self._misdirected(event.request_id, engine, event.engine, abort, record)
            else:
                self.violate(
                    f"the ABORT for {event.request_id} arrived before its ADD",
                    expected=f"ADD, then ABORT, for {event.request_id} at engine {engine}",
                    seen=f"ABORT at event {abort.seq}, ADD at event {record.seq}",
                    witness=(abort, record),
                )

    def _misdirected(
        self, request_id: str, engine: int, owner: int, first: Record, second: Record
    ) -> None:
        self.violate(
            f"engine {engine} received an ABORT for {request_id}, which engine {owner} has",
            expected=f"ABORT for {request_id} at engine {owner} only",
            seen=f"ABORT for {request_id} at engine {engine}",
            witness=(first, second),
        )
