"""Invariant utility.settles-before-return."""

from __future__ import annotations

from harness.invariants._fanouts import FanOut, FanOutBook
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record, UtilityEnded
from mock_engines.events import EngineDied, UtilitySeen


class SettlesBeforeReturn(RunInvariant):
    """A utility call returns only after every engine has settled.

    Statement: Whenever a utility call ends finished or failed, every engine that received it has
        replied or died before, and none receives it afterwards.
    Reason: Whoever sees an error while an engine still works cannot compensate: the change may
        land later, after the undo, and leave the engines apart.
    Source: vllm#52671 (wait for all engines; releases up to 0.28.0 return at the first failure);
        protocol page, section 9.2.
    Limits: A reply counts by its call id alone, whichever engine sent it (section 5.4). Calls that their caller left, or that ran into an overall timeout, are left out, as
        is a frontend that failed or was shut down. Concurrent calls of one method on a black box
        are left out, since the wire does not tell them apart.
    """

    id = "utility.settles-before-return"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((EngineDied, UtilityEnded, UtilitySeen))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.fans = context.shelf.book(FanOutBook, context)
        self._died: dict[int, Record] = {}

    def see(self, record: Record) -> None:
        """Judge an end, and what still comes after one."""
        event = record.event
        match event:
            case EngineDied():
                self._died[event.engine] = record
            case UtilityEnded():
                fan = self.fans.fans.get(event.op)
                if fan is not None and fan.ended is record:
                    self._ended(fan, record)
            case _:
                assert isinstance(event, UtilitySeen)
                fan = self.fans.by_call.get(event.call_id)
                if fan is not None and fan.ended is not None:
                    self._late(fan, record, event)

    def _judged(self, fan: FanOut) -> bool:
        return fan.settled_by_frontend and not fan.ambiguous and self.state.sound

    def _ended(self, fan: FanOut, record: Record) -> None:
        if not self._judged(fan):
            return
        if len(fan.calls) > 1:
            self.exercised += 1
        for call_id, seen in fan.seen.items():
            engine = fan.calls[call_id]
            died = self._died.get(engine)
            if call_id in fan.replies or (died is not None and died.seq > seen.seq):
                continue
            self._violate(fan, engine, (seen, record))
        for call_id, registered in fan.registered.items():
            if fan.settled and call_id not in fan.settled:
                self._not_taken(fan, call_id, (registered, record))

    def _not_taken(self, fan: FanOut, call_id: int, witness: tuple[Record, ...]) -> None:
        """The client did not wait for a reply, though it may have been sent by then."""
        engine = fan.calls[call_id]
        if call_id not in fan.replies:
            self._violate(fan, engine, witness)
            return
        outcome = "" if fan.end is None else fan.end.outcome
        taken = sorted(fan.calls[each] for each in fan.settled)
        sent = fan.replies[call_id][0]
        self.violate(
            f"{fan.event.method} ended {outcome} before the client took the reply of engine {engine}",
            expected=f"replies of engines {sorted(fan.calls.values())} taken before the call ends",
            seen=f"replies of engines {taken} taken; that of engine {engine} was sent (event {sent.seq})",
            witness=(*witness, *(r[0] for r in fan.replies.values())),
        )

    def _violate(self, fan: FanOut, engine: int, witness: tuple[Record, ...]) -> None:
        outcome = "" if fan.end is None else fan.end.outcome
        replied = sorted(fan.calls[call_id] for call_id in fan.replies)
        self.violate(
            f"{fan.event.method} ended {outcome} while engine {engine} still worked on it",
            expected=f"replies of engines {sorted(fan.calls.values())} before the call ends",
            seen=f"replies of engines {replied} before the call ended",
            witness=(*witness, *(r[0] for r in fan.replies.values())),
        )

    def _late(self, fan: FanOut, record: Record, event: UtilitySeen) -> None:
        if not self._judged(fan) or fan.ended is None:
            return
        if any(reply.seq < fan.ended.seq for reply in fan.replies.get(event.call_id, ())):
            return  # another engine answered in its place
        self.violate(
            f"engine {event.engine} received {fan.event.method} after it had ended",
            expected=f"nothing of call {fan.op} at any engine after event {fan.ended.seq}",
            seen=f"UTILITY of call {fan.op} at engine {event.engine}, event {record.seq}",
            witness=(fan.ended, record),
        )
