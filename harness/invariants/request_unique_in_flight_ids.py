"""Invariant request.unique-in-flight-ids."""

from __future__ import annotations

from harness.invariants._adds import Episode
from harness.invariants._calls import Call
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.trace.events import Record
from mock_engines.events import AddSeen


class UniqueInFlightIds(RequestInvariant):
    """No two requests in flight carry one internal id.

    Statement: Whenever an ADD arrives, no earlier request of the same id is still held by an
        engine with a caller that waits for it.
    Reason: Outputs are told apart by id alone; two requests of one id get each other's tokens,
        and one ABORT ends both.
    Source: protocol page, sections 6.1 (duplicate ids are refused) and 6.4.
    Limits: An id may be used again once its caller has left or has its end, even though the ABORT
        is still on its way to another engine.
    """

    id = "request.unique-in-flight-ids"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((AddSeen,))

    def see(self, record: Record) -> None:
        """Compare an ADD with earlier ones of its id."""
        event = record.event
        assert isinstance(event, AddSeen)
        self.exercised += 1
        episodes = self.adds.by_id[event.request_id]
        for place, episode in enumerate(episodes[:-1]):
            if not episode.open:
                continue
            if any(not call.wanted for call in self._callers(episodes, place)):
                continue  # the id was free for its client
            self.violate(
                f"two requests in flight have the id {event.request_id}",
                expected=f"one request {event.request_id} in flight",
                seen=f"ADD at engine {episode.engine}, then at engine {event.engine}",
                witness=(episode.add, record),
            )

    def _callers(self, episodes: list[Episode], place: int) -> list[Call]:
        """The calls that an ADD may belong to; those of earlier requests of the id do not count.

        As narrow as the order of events allows: those that began after the request before had
        ended; else after its ADD had arrived; else all.
        """
        episode = episodes[place]
        calls = [
            call
            for call in self.calls_of(episode)
            if call.started.seq < episode.add.seq
            and (call.end is None or call.end.error != "DuplicateRequestId")
        ]
        if not place:
            return calls
        before = episodes[place - 1]
        marks = [before.add.seq]
        if before.over is not None:
            marks.insert(0, before.over.seq)
        for mark in marks:
            later = [call for call in calls if call.started.seq > mark]
            if later:
                return later
        return calls
