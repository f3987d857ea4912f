"""Invariant utility.no-waiter-outlives-call."""

from __future__ import annotations

from collections import Counter

from harness.invariants._fanouts import UNEXPECTED_REPLY, FanOut, FanOutBook
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.trace.events import (
    Fenced,
    LogLine,
    Record,
    ScaleEnded,
    ScaleStarted,
    Snapshot,
    UtilityEnded,
)
from mock_engines.events import UtilityReplySent


class NoWaiterOutlivesCall(RunInvariant):
    """When a utility call ends, however it ends, no waiter of it is left.

    Statement: For every utility call that ended, finished, failed or cancelled, each waiter that
        was registered for it is settled, released, or gone with a reply that was dropped with a
        record; the registry that a snapshot shows holds none of its ids, and a reply that comes later is dropped with a record.
    Reason: A waiter that stays is memory that grows with every impatient caller, and it swallows
        the late reply, so that nobody learns what the engine did.
    Source: vllm#52671 (guard removes all ids; releases up to 0.28.0 leave them); protocol page,
        sections 9.2 and 22 (7).
    Limits: On a black box the witness is the frontend's warning about an unexpected reply, for
        replies sent after a fence behind the end of a cancelled call, or after a failed one.
        A client that fails lets go of all its waiters at once, without an event for each.
    """

    id = "utility.no-waiter-outlives-call"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types(
        (UtilityEnded, Snapshot, Fenced, UtilityReplySent, LogLine, ScaleStarted, ScaleEnded)
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.fans = context.shelf.book(FanOutBook, context)
        self._by_log = not self.white and "see.log" in context.capabilities
        self._fences: list[Record] = []
        self._late: list[tuple[FanOut, int, Record]] = []
        self._reported: Counter[str] = Counter()
        self._lines = 0
        self._changes = 0

    def see(self, record: Record) -> None:
        """Judge white-box evidence at once; collect what a black box shows."""
        event = record.event
        match event:
            case UtilityEnded():
                fan = self.fans.fans.get(event.op)
                if fan is not None and fan.ended is record and self.white:
                    self._ended(fan, record)
            case Snapshot():
                self._snapshot(record, event)
            case ScaleStarted():
                self._changes += 1  # it calls utilities that are nobody's step
            case ScaleEnded():
                self._changes -= 1
            case Fenced():
                self._fences.append(record)
            case UtilityReplySent() if self._by_log:
                self._reply(record, event)
            case LogLine(pattern=pattern) if pattern in UNEXPECTED_REPLY:
                self._lines += 1
                self._reported[dict(event.fields).get("call_id", "")] += 1
            case _:
                pass

    def _pending(self, fan: FanOut) -> dict[int, Record]:
        return {
            call_id: record
            for call_id, record in fan.registered.items()
            if call_id not in fan.settled and call_id not in fan.released
        }

    def _ended(self, fan: FanOut, record: Record) -> None:
        self.exercised += bool(fan.registered) or fan.ambiguous
        if fan.ambiguous:
            self._count_alike(fan, record)
            return
        pending = self._pending(fan)
        if pending:
            self._violate(fan, record, sorted(pending), tuple(pending.values()))

    def _count_alike(self, fan: FanOut, record: Record) -> None:
        """Calls of one method at once: there may be no more waiters than open calls need."""
        alike = [f for f in self.fans.fans.values() if f.wire_methods == fan.wire_methods]
        still_open = sum(f.ended is None for f in alike)
        pending = {call_id: r for f in alike for call_id, r in self._pending(f).items()}
        width = len(self.context.ranks) + self.context.scenario.topology.later
        if len(pending) > still_open * max(width, 1):
            self._violate(fan, record, sorted(pending), tuple(pending.values()))

    def _snapshot(self, record: Record, event: Snapshot) -> None:
        for call_id in event.pending_utility:
            fan = self.fans.by_call.get(call_id)
            if fan is not None and fan.ended is not None and not fan.ambiguous:
                self._violate(fan, record, [call_id], (fan.ended,))
        unknown = [c for c in event.pending_utility if c not in self.fans.by_call]
        still_open = [f for f in self.fans.fans.values() if f.ended is None]
        if unknown and not still_open and not self._changes and self.fans.fans:
            self.violate(
                "waiters are left although no utility call is open",
                expected="no pending call id",
                seen=f"pending call ids {unknown}",
                witness=(record,),
            )

    def _violate(
        self, fan: FanOut, record: Record, pending: list[int], witness: tuple[Record, ...]
    ) -> None:
        outcome = "ended" if fan.end is None else fan.end.outcome
        self.violate(
            f"{fan.event.method} ({fan.op}) has {outcome} and left waiters behind",
            expected=f"no waiter of call {fan.op} at event {record.seq}",
            seen=f"waiters of call ids {pending}",
            witness=(*witness, record),
        )

    def _reply(self, record: Record, event: UtilityReplySent) -> None:
        fan = self.fans.by_call.get(event.call_id)
        if fan is None or fan.ended is None or fan.end is None or fan.ambiguous:
            return
        if not self.state.sound or len(fan.replies.get(event.call_id, ())) > 1:
            return
        ended = fan.ended.seq
        # The frontend learns of a hang-up some time after its caller is gone.
        if fan.end.outcome == "cancelled" and not any(f.seq > ended for f in self._fences):
            return
        self._late.append((fan, event.call_id, record))

    def at_end(self) -> None:
        """Compare late replies with the frontend's warnings, once the log is complete."""
        if not self._late or self.ended is None:
            return
        self.exercised += len(self._late)
        missing = self._late
        if "" not in self._reported:  # the warnings name their call ids
            missing = [late for late in self._late if not self._reported[str(late[1])]]
        elif self._lines >= len(self._late):
            return
        for fan, call_id, record in missing[:1]:
            self.violate(
                f"a late reply to {fan.event.method} ({fan.op}) was swallowed by a waiter",
                expected=f"a warning about the unexpected reply to call id {call_id}",
                seen=f"{self._lines} such warnings for {len(self._late)} late replies",
                witness=(record,) if fan.ended is None else (fan.ended, record),
            )
