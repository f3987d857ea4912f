"""Invariant elastic.coordinator-follows."""

from __future__ import annotations

from client.events import CoordinatorPublished, ScaleNoticeHandled, ScaleNoticeQueued
from harness.invariants._run import RunInvariant, event_types
from harness.invariants._waves import restarts_coordinator
from harness.invariants.base import Kind, RunContext
from harness.trace.events import Record, ScaleEnded, StepBegan


class CoordinatorFollows(RunInvariant):
    """The external coordinator has as many engines as there are.

    Statement: Of an external coordinator: once it was told of a number of engines, it has counts
        of so many, and publishes so many, the first publish after that apart; and by the final
        fence it was told of the number that the last change which finished came to.
    Reason: Counts of engines that are gone draw requests to them; an engine of which the
        coordinator does not know reports to nobody, and looks idle for ever.
    Source: vLLM ``v1/engine/coordinator.py`` (``SCALE_ELASTIC_EP``), ``v1/engine/core_client.py``;
        protocol page, section 12.
    Limits: Clients that tell of themselves. The first publish may be of the step before, of which
        a coordinator keeps a snapshot while the next step trickles in. A coordinator that is restarted, which begins with
        the number of its first start, is left out, and so is a publish that a scenario speaks.
    """

    id = "elastic.coordinator-follows"
    kind = Kind.EVENTUALLY
    needs = frozenset({"see.client-events"})
    handles = event_types(
        (ScaleNoticeQueued, ScaleNoticeHandled, CoordinatorPublished, ScaleEnded, StepBegan)
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._judged = context.scenario.topology.coordinator == "external"
        self._queued: list[tuple[int, Record]] = []
        self._handled = 0
        self._snapshot_due = False
        self._ended: Record | None = None

    def see(self, record: Record) -> None:
        """Compare what the coordinator has with what it was told."""
        event = record.event
        match event:
            case ScaleNoticeQueued():
                self._queued.append((event.engines, record))
            case ScaleNoticeHandled():
                self._handle(record, event)
            case CoordinatorPublished() if event.counts is not None and self._handled:
                if not self._snapshot_due:
                    self._size(record, len(event.counts), "publishes counts of")
                self._snapshot_due = False
            case ScaleEnded(outcome="finished"):
                self._ended = record
            case StepBegan():
                self._judged = self._judged and not restarts_coordinator(self.context, record)
            case _:
                pass

    def _handle(self, record: Record, event: ScaleNoticeHandled) -> None:
        if self._handled < len(self._queued):
            self._handled += 1
            self._snapshot_due = True
            self._size(record, event.engines_after, "has counts of")

    def _size(self, record: Record, seen: int, what: str) -> None:
        if not self._judged:
            return
        told, by = self._queued[self._handled - 1]
        self.exercised += 1
        if seen != told:
            self.violate(
                f"the coordinator {what} {seen} engines, and there are {told}",
                expected=f"counts of {told} engines since event {by.seq}",
                seen=f"counts of {seen} engines at event {record.seq}",
                witness=(by, record),
            )

    def at_rest(self) -> None:
        """Look whether it was told at all."""
        last, fence = self._ended, self.fenced
        if not self._judged or last is None or fence is None or not self.state.sound:
            return
        assert isinstance(last.event, ScaleEnded)
        size = last.event.to
        self.exercised += 1
        known = self._queued[self._handled - 1][0] if self._handled else None
        first = len(self.context.ranks)
        if (first if known is None else known) != size:
            self.violate(
                f"the coordinator does not know that there are {size} engines",
                expected=f"told of {size} engines by event {fence.seq}",
                seen=f"last told of {known}" if known is not None else "never told of a size",
                witness=(last, fence),
            )
