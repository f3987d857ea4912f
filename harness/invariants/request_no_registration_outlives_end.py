"""Invariant request.no-registration-outlives-end."""

from __future__ import annotations

from client.events import RequestRegistered, RequestReleased
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import Kind, RunContext
from harness.trace.events import Record, Snapshot


class NoRegistrationOutlivesEnd(RequestInvariant):
    """When a call has ended, its request leaves the registry.

    Statement: By the final fence, every request that was registered for a call that ended is
        released, and the registry that a snapshot shows holds requests of open calls only and
        no id that waits for its ABORT to leave.
    Reason: A registration that stays blocks its id, counts as load of its engine for ever, and
        turns away the next requests from an idle engine.
    Source: vllm#52671 (cancellation inside call leaks the registration); vllm#57061 (the same in
        the Python client); protocol page, sections 6.1 and 6.2.
    Limits: White box only. Judged behind the final fence, for a frontend that is healthy: an
        abort under way releases its request when the worker gets to it.
    """

    id = "request.no-registration-outlives-end"
    kind = Kind.EVENTUALLY
    needs = frozenset({"see.client-events", "see.registries"})
    handles = event_types((RequestRegistered, RequestReleased, Snapshot))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._registered: dict[str, Record] = {}
        self._shot: tuple[Record, Snapshot] | None = None

    def see(self, record: Record) -> None:
        """Keep the registry as it is told, and the last snapshot."""
        event = record.event
        match event:
            case RequestRegistered():
                self._registered[event.request_id] = record
            case RequestReleased():
                self.exercised += 1
                self._registered.pop(event.request_id, None)
            case _:
                assert isinstance(event, Snapshot)
                self._shot = (record, event)

    def at_rest(self) -> None:
        """Compare both witnesses with the calls that are open."""
        self.exercised += len(self._registered)
        if not self.state.sound or self.fenced is None:
            if self._registered and self.state.sound:
                self.unjudged = "no final fence: an abort may still be under way"
            return
        for request_id, registered in self._registered.items():
            self._judge(request_id, registered, "the client's events")
        if self._shot is not None and self._shot[1].label == "end":
            shot_record, shot = self._shot
            for request_id in shot.in_flight:
                self._judge(request_id, shot_record, "the snapshot")
            for request_id in shot.departing:
                self.violate(
                    f"the id {request_id} is still taken although its request is over",
                    expected=f"{request_id} free at the final fence",
                    seen=f"{request_id} waits for its ABORT to leave, says the snapshot",
                    witness=(shot_record, self.fenced),
                )

    def _judge(self, request_id: str, evidence: Record, source: str) -> None:
        calls = self.calls.of_request(request_id)
        if any(call.open for call in calls):
            return
        ended = [call.ended for call in calls if call.ended is not None]
        self.violate(
            f"request {request_id} is still in flight although its call has ended",
            expected=f"{request_id} not in flight at the final fence",
            seen=f"{request_id} in flight, says {source}",
            witness=(evidence, *ended[-1:], self.fenced or evidence),
        )
