"""Invariant health.sticky-first."""

from __future__ import annotations

from client.events import HealthFailed
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.trace.events import HealthSample, Record


class HealthStickyFirst(RunInvariant):
    """The first fatal error stays the answer for ever.

    Statement: Once a frontend has failed, no later sample of its health is good, and every
        error that it shows is the first one.
    Reason: A frontend that looks healthy again although its registries are closed is put back
        into service and refuses everything; a changing cause hides the real one.
    Source: protocol page, sections 5.3 and 16.
    Limits: Error texts are compared where the target shows them.
    """

    id = "health.sticky-first"
    needs = frozenset({"see.health"})
    handles = event_types((HealthFailed, HealthSample))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._first: Record | None = None
        self._error: tuple[str, str] | None = None

    def see(self, record: Record) -> None:
        """Compare with the first failure."""
        event = record.event
        if isinstance(event, HealthFailed):
            self._failed(record, event)
        else:
            assert isinstance(event, HealthSample)
            self._sample(record, event)

    def _failed(self, record: Record, event: HealthFailed) -> None:
        self.exercised += 1
        if event.first == (self._error is not None):
            claim = "first" if event.first else "later"
            self.violate(
                f"{event.error} was taken as the {claim} failure of the frontend",
                expected="one first failure, before all others",
                seen=f"{claim} failure at event {record.seq}",
                witness=(record,) if self._first is None else (self._first, record),
            )
        if self._error is None:
            self._first, self._error = record, (event.error, event.message)

    def _sample(self, record: Record, event: HealthSample) -> None:
        if event.healthy:
            if self._first is not None:
                self.exercised += 1
                self.violate(
                    "the frontend says that it is healthy after it had failed",
                    expected=f"unhealthy after event {self._first.seq}",
                    seen=f"healthy at event {record.seq}",
                    witness=(self._first, record),
                )
            return
        self.exercised += 1
        self._first = self._first or record
        if event.error is None:
            return
        shown = (event.error, event.message)
        if self._error is not None and shown != self._error:
            self.violate(
                "the frontend changed the cause of its failure",
                expected=f"{self._error[0]}: {self._error[1]}",
                seen=f"{shown[0]}: {shown[1]}",
                witness=(self._first, record),
            )
        self._error = self._error or shown
