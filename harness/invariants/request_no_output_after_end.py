"""Invariant request.no-output-after-end."""

from __future__ import annotations

from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.trace.events import CallEnded, CallOutput, Record


class NoOutputAfterEnd(RunInvariant):
    """Nothing reaches a caller after the end of its call.

    Statement: For every call, its caller receives no output after one with a finish reason, none
        after the call ended, and the call ends once.
    Reason: Late tokens after the end corrupt an answer that was already used.
    Source: protocol page, sections 5.4 (outputs behind the finished one are dropped) and 8.1.
    Limits: What the frontend drops before it reaches a caller is not seen, and is right.
    """

    id = "request.no-output-after-end"
    needs = frozenset({"see.results"})
    handles = event_types((CallOutput, CallEnded))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._ended: dict[str, Record] = {}
        self._finished: dict[str, Record] = {}

    def see(self, record: Record) -> None:
        """Compare with the end, if there was one."""
        event = record.event
        if isinstance(event, CallOutput):
            end = self._ended.get(event.op) or self._finished.get(event.op)
            if end is not None:
                self._after(event.op, "output", end, record)
            if event.finish is not None:
                self._finished.setdefault(event.op, record)
        else:
            assert isinstance(event, CallEnded)
            self.exercised += 1
            end = self._ended.setdefault(event.op, record)
            if end is not record:
                self._after(event.op, "end", end, record)

    def _after(self, op: str, what: str, end: Record, record: Record) -> None:
        self.violate(
            f"call {op} had another {what} after its end",
            expected=f"nothing for call {op} after event {end.seq}",
            seen=f"{what} at event {record.seq}",
            witness=(end, record),
        )
