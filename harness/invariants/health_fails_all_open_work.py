"""Invariant health.fails-all-open-work."""

from __future__ import annotations

from client.events import HealthFailed
from harness.invariants._fanouts import FanOutBook
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import Kind, RunContext
from harness.trace.events import CallEnded, Record, UtilityEnded
from mock_engines.events import AbortSeen, AddSeen, UtilitySeen

_OWN_REASONS = frozenset(
    {
        "RequestStreamClosed",
        "DuplicateRequestId",
        "InvalidDataParallelRank",
        "InvalidRankMetadata",
        "Encode",
        "Transport",
        "UnsupportedField",
    }
)
"""Errors that a call may have for a reason of its own, at the moment when its client fails."""


class FailsAllOpenWork(RequestInvariant):
    """A fatal error ends everything with one cause, and nothing is sent afterwards.

    Statement: Once a frontend has failed, every call and utility call that is open ends, those
        that began later fail, generations fail with the first fatal error, and no engine receives
        a message for work that began, or whose caller left, after the failure.
    Reason: Work that stays open behind a closed dispatcher hangs its caller for ever; work sent
        with an unknown state may run twice.
    Source: protocol page, sections 5.3 and 22 (10); vllm#56416 (utility waiters forgotten in
        the Python client).
    Limits: An output that was sent before the failure may still end its call. On a black box the
        failure is where its health is first seen bad, and error classes are not compared.
    """

    id = "health.fails-all-open-work"
    kind = Kind.EVENTUALLY
    needs = frozenset({"see.wire", "see.results", "see.health"})
    handles = event_types((HealthFailed, CallEnded, UtilityEnded, AddSeen, UtilitySeen, AbortSeen))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.fans = context.shelf.book(FanOutBook, context)
        self._error: str | None = None

    def see(self, record: Record) -> None:
        """Judge what ends, and what is sent, after the failure."""
        event = record.event
        if isinstance(event, HealthFailed) and self._error is None:
            self._error = event.error
        failed = self.state.failed
        if failed is None or failed is record:
            return
        match event:
            case CallEnded():
                self._call_ended(failed, record, event)
            case UtilityEnded():
                self._utility_ended(failed, record, event)
            case AddSeen():
                # Where callers share an id it may be the first one's.
                for call in self.calls.of_request(event.request_id, event.external_id)[:1]:
                    self._sent(failed, call.started, record, "ADD")
            case UtilitySeen():
                fan = self.fans.by_call.get(event.call_id)
                if fan is not None and not fan.ambiguous:
                    self._sent(failed, fan.started, record, "UTILITY")
            case AbortSeen():
                self._aborted(failed, record, event)
            case _:
                pass

    def _call_ended(self, failed: Record, record: Record, event: CallEnded) -> None:
        call = self.calls.calls.get(event.op)
        if call is None or call.ended is not record or event.outcome == "cancelled":
            return
        self.exercised += 1
        later = call.started.seq > failed.seq
        if event.outcome == "finished":
            if later:
                self._violate(f"call {event.op} failed", "finished", failed, record)
            return
        known = self.white and self._error is not None and event.error is not None
        if known and event.error != self._error and event.error not in _OWN_REASONS:
            wanted = f"call {event.op} failed with {self._error}"
            self._violate(wanted, f"failed with {event.error}", failed, record)

    def _utility_ended(self, failed: Record, record: Record, event: UtilityEnded) -> None:
        fan = self.fans.fans.get(event.op)
        if fan is None or fan.ended is not record or event.outcome == "cancelled":
            return
        self.exercised += 1
        if event.outcome == "finished" and fan.started.seq > failed.seq:
            self._violate(f"utility call {event.op} failed", "finished", failed, record)

    def _aborted(self, failed: Record, record: Record, event: AbortSeen) -> None:
        for request_id in event.request_ids:
            calls = self.calls.of_request(request_id)
            reasons = [r for c in calls for r in (c.left, c.abort_asked) if r is not None]
            if reasons and all(reason.seq > failed.seq for reason in reasons):
                self._sent(failed, reasons[0], record, "ABORT")

    def _sent(self, failed: Record, cause: Record, record: Record, what: str) -> None:
        if cause.seq <= failed.seq:
            return
        self._violate(f"no {what} for work after event {failed.seq}", what, failed, record)

    def at_rest(self) -> None:
        """Whatever is open now never ended."""
        failed = self.state.failed
        record = self.ended
        if failed is None or record is None:
            return
        open_calls = [c.op for c in self.calls.calls.values() if c.open]
        open_fans = [f.op for f in self.fans.fans.values() if f.ended is None]
        for op in [*open_calls, *open_fans]:
            self.exercised += 1
            self._violate(f"{op} ended by event {record.seq}", f"{op} is open", failed, record)

    def _violate(self, wanted: str, seen: str, failed: Record, record: Record) -> None:
        self.violate(
            "the frontend failed and went on",
            expected=wanted,
            seen=seen,
            witness=(failed, record),
        )
