"""Invariant routing.explicit-rank."""

from __future__ import annotations

from harness.invariants._ranks import Asked, asked
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.trace.events import CallEnded, Record
from mock_engines.events import AddSeen


class ExplicitRank(RequestInvariant):
    """A request with an explicit rank goes to exactly that engine, or nowhere.

    Statement: For every call that names a rank, the ADD arrives at the engine of that global rank
        and at no other; a rank or a text that cannot be honoured brings no ADD.
    Reason: A rank that is squeezed or ignored puts a request where its KV cache is not, and the
        caller cannot notice.
    Source: vllm#51178 (up to 0.27.1 the low 16 bits counted, and gRPC metadata had no effect);
        protocol page, section 7.3.
    Limits: HTTP ignores a header that is no unsigned 32-bit integer; such a call may go anywhere.
        Of repeated keys the first counts. Calls that share an external id are judged together.
    """

    id = "routing.explicit-rank"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((AddSeen, CallEnded))

    def see(self, record: Record) -> None:
        """Judge where an ADD arrived, and count calls that were refused."""
        event = record.event
        if isinstance(event, AddSeen):
            self._add(record, event)
        else:
            assert isinstance(event, CallEnded)
            call = self.calls.calls.get(event.op)
            if call is not None and asked(call.event) != Asked() and event.outcome == "failed":
                self.exercised += 1

    def _add(self, record: Record, event: AddSeen) -> None:
        calls = self.calls.of_request(event.request_id, event.external_id)
        wishes = [asked(call.event) for call in calls]
        if not wishes or any(wish == Asked() for wish in wishes):
            return
        self.exercised += 1
        allowed = [wish.rank for wish in wishes if wish.rank is not None]
        if event.engine not in allowed:
            wanted = f"engine {allowed[0]}" if allowed else "no engine"
            self.violate(
                f"a request for {self._wish(calls[0].event.rank_text, allowed)} went to engine"
                f" {event.engine}",
                expected=f"ADD at {wanted}, or none",
                seen=f"ADD at engine {event.engine}",
                witness=(calls[0].started, record),
            )

    @staticmethod
    def _wish(text: tuple[str, ...], allowed: list[int]) -> str:
        return f"rank text {text[0]!r}" if text else f"rank {allowed[0]}"
