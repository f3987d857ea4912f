"""Invariant utility.unique-call-ids."""

from __future__ import annotations

from client.events import UtilityRegistered
from harness.invariants._run import event_types
from harness.invariants.base import Invariant, RunContext
from harness.trace.events import Record
from mock_engines.events import UtilitySeen


class UniqueCallIds(Invariant):
    """No call id is used twice.

    Statement: For every frontend, no two UTILITY messages, to any engines, carry the same call id;
        and no waiter is registered under an id that was registered before.
    Reason: Replies are paired by call id alone; the reply to one call would resolve another.
    Source: protocol page, section 9.1 (one id per engine per call, from a counter).
    Limits: Frontends are told apart by their client index.
    """

    id = "utility.unique-call-ids"
    handles = event_types((UtilitySeen, UtilityRegistered))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._seen: dict[tuple[int, int], Record] = {}
        self._registered: dict[int, Record] = {}

    def on_event(self, record: Record) -> None:
        """Compare with all ids before."""
        event = record.event
        if isinstance(event, UtilitySeen):
            self.exercised += 1
            earlier = self._seen.setdefault((event.client_index, event.call_id), record)
        else:
            assert isinstance(event, UtilityRegistered)
            earlier = self._registered.setdefault(event.call_id, record)
        if earlier is not record:
            self.violate(
                f"call id {event.call_id} was used twice",
                expected=f"a call id not used before event {record.seq}",
                seen=f"call id {event.call_id}, used at event {earlier.seq}",
                witness=(earlier, record),
            )
