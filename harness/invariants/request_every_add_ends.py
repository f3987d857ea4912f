"""Invariant request.every-add-ends."""

from __future__ import annotations

from client.events import AbortFailed
from harness.invariants._adds import Episode
from harness.invariants._calls import Call
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import Kind, RunContext
from harness.trace.events import Record
from mock_engines.events import AbortSeen


class EveryAddEnds(RequestInvariant):
    """Each ADD ends in exactly one of: the engine's finish, an ABORT, the frontend's end.

    Statement: For every ADD, by the final fence the engine has finished the request or received
        an ABORT for it, unless its caller still waits or the frontend or the engine is gone; and
        no ABORT follows a finish that its caller has received.
    Reason: A request whose caller left and that nobody aborts decodes for nobody and holds cache;
        an ABORT behind a finish may hit the next request of the same id.
    Source: vllm#52671 (cancelled inside call), #9428, #32442 (disconnects); protocol page,
        sections 6.2, 8.2 and 22 (4), (5).
    Limits: Judged behind the final fence. A request that its engine never ends while the caller
        waits is the engine's doing, as is one that an engine ended before its ADD came, or that
        another engine ended: the client looks at the id alone. A frontend that failed or is shut
        down aborts nothing, and an ABORT that could not be sent is none of its duty.
    """

    id = "request.every-add-ends"
    kind = Kind.EVENTUALLY
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((AbortFailed, AbortSeen))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._unsendable: set[tuple[int, str]] = set()

    def see(self, record: Record) -> None:
        """Look at aborts behind a received finish."""
        event = record.event
        if isinstance(event, AbortFailed):
            self._unsendable.update((event.engine, name) for name in event.request_ids)
        if not isinstance(event, AbortSeen):
            return
        for request_id in event.request_ids:
            episode = self.adds.at(request_id, event.engine)
            if episode is None or episode.finish is None:
                continue
            calls = self.calls_of(episode)
            received = [c for c in calls if c.end is not None and c.end.outcome == "finished"]
            asked = any(c.left is not None or c.abort_asked is not None for c in calls)
            if calls and len(received) == len(calls) and not asked:
                self.violate(
                    f"request {request_id} was aborted after its caller had the finish",
                    expected=f"one end of request {request_id}",
                    seen=f"finish at event {episode.finish.seq} and ABORT at event {record.seq}",
                    witness=(episode.add, episode.finish, record),
                )

    def _until(self, calls: list[Call]) -> int:
        """Event before which an end that was not meant may have taken a request of these calls.

        Whoever left is aborted only once the client comes to that, which it has by the next fence;
        until then its request may still be ended.
        """
        assert self.ended is not None
        until = 0
        for call in calls:
            if call.left is not None:
                until = max(until, self._ends.fence_after(call.left.seq) or self.ended.seq)
            else:
                assert call.ended is not None, "it is asked of calls that nobody waits in"
                until = max(until, call.ended.seq)
        return until

    def at_rest(self) -> None:
        """Look for requests that an engine still has and nobody waits for."""
        abandoned: list[Episode] = []
        for episode in self.adds.episodes:
            if not episode.open:
                self.exercised += 1
                continue
            if not self.calls.nobody_waits(episode.event.request_id, episode.event.external_id):
                continue
            if (episode.engine, episode.event.request_id) in self._unsendable:
                continue
            if self.stray_end(episode, until=self._until(self.calls_of(episode))):
                continue
            if self.state.sound:
                self.exercised += 1
                abandoned.append(episode)
        if self.fenced is None:
            if abandoned:
                self.unjudged = "no final fence: an ABORT may still be under way"
            return
        for episode in abandoned:
            left = [call.gone for call in self.calls_of(episode) if call.gone is not None]
            self.violate(
                f"engine {episode.engine} still has request {episode.event.request_id}, which"
                " nobody waits for",
                expected=f"finish of, or ABORT for, {episode.event.request_id}"
                f" at engine {episode.engine}",
                seen="neither by the final fence",
                witness=(episode.add, *left, self.fenced),
            )
