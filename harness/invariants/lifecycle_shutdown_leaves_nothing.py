"""Invariant lifecycle.shutdown-leaves-nothing."""

from __future__ import annotations

from client.events import (
    ClientClosed,
    FirstRequestQueued,
    RequestRegistered,
    RequestReleased,
    UtilityRegistered,
)
from harness.invariants._run import event_types
from harness.invariants.base import Invariant, RunContext
from harness.trace.events import ClientReleased, Record, Snapshot


class ShutdownLeavesNothing(Invariant):
    """A client that was shut down keeps no task and no socket, and does nothing more.

    Statement: When ``shutdown`` of a client has ended, none of its tasks runs and none of its
        sockets is open, and every request that it registered is released; afterwards it registers
        nothing, a snapshot shows nothing in flight, and once its owner lets go of it nothing of its
        own keeps it alive.
    Reason: A task that outlives its client keeps the client alive, and with it sockets that the
        next one cannot bind.
    Source: vllm#52671 (a cancelled utility call must leave no task that keeps the client alive);
        protocol page, sections 6.3 and 16.
    Limits: Reference client only. The external coordinator is a process of its own.
    """

    id = "lifecycle.shutdown-leaves-nothing"
    needs = frozenset({"see.client-events"})
    handles = event_types(
        (
            ClientClosed,
            ClientReleased,
            RequestRegistered,
            RequestReleased,
            UtilityRegistered,
            FirstRequestQueued,
            Snapshot,
        )
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._closed: Record | None = None
        self._in_flight: dict[str, Record] = {}

    def on_event(self, record: Record) -> None:
        """Judge the end and what comes after it."""
        event = record.event
        if isinstance(event, RequestReleased):
            self._in_flight.pop(event.request_id, None)
        elif isinstance(event, ClientClosed):
            self.exercised += 1
            self._closed = self._closed or record
            if event.tasks or event.sockets:
                self.violate(
                    "the client left something open at its shutdown",
                    expected="tasks () and 0 sockets",
                    seen=f"tasks {event.tasks} and {event.sockets} sockets",
                    witness=(record,),
                )
            if self._in_flight:
                self.violate(
                    "the client forgot requests at its shutdown",
                    expected="no request in flight",
                    seen=f"in flight: {', '.join(self._in_flight)}",
                    witness=(*self._in_flight.values(), record),
                )
        elif isinstance(event, ClientReleased):
            self.exercised += 1
            if event.alive:
                self.violate(
                    "something of its own keeps the client alive after its shutdown",
                    expected="no reference is left once the owner let go",
                    seen="the client is still alive",
                    witness=(record,),
                )
        elif self._closed is None:
            if isinstance(event, RequestRegistered):
                self._in_flight[event.request_id] = record
        else:
            busy = (
                (*event.in_flight, *event.pending_utility)
                if isinstance(event, Snapshot)
                else (type(event).__name__,)
            )
            if busy:
                self.violate(
                    "the client did something after its shutdown",
                    expected=f"nothing after event {self._closed.seq}",
                    seen=f"{busy} at event {record.seq}",
                    witness=(self._closed, record),
                )
