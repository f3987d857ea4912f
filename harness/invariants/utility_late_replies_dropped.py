"""Invariant utility.late-replies-dropped."""

from __future__ import annotations

from collections import Counter

from client.events import UtilityReplyDropped, UtilitySettled
from harness.invariants._fanouts import UNEXPECTED_REPLY
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.trace.events import LogLine, Record
from mock_engines.events import EngineDied, UtilityReplySent

REPLY_OUTCOMES = frozenset({None, "UtilityCallFailed", "UtilityResultDecode"})
"""Errors of an outcome that a reply brought; any other came without one."""


class LateRepliesDropped(RunInvariant):
    """A reply that resolves nothing is dropped with a record.

    Statement: For every call id, all replies but the one that settles its waiter are dropped, each
        with a record of its own, and none settles another waiter.
    Reason: A late or double reply that goes on silently may resolve a call that it was not meant
        for, and nobody can see what an engine did after its caller left.
    Source: vllm#52671; protocol page, section 9.2.
    Limits: Judged behind the final fence, for a frontend that is healthy. Negative ids are notices
        of an engine, not replies. On a black box the record is a warning in the log, and only
        repeated replies are counted.
    """

    id = "utility.late-replies-dropped"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types(
        (UtilityReplySent, UtilitySettled, UtilityReplyDropped, EngineDied, LogLine)
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._sent: dict[int, list[Record]] = {}
        self._settled: dict[int, Record] = {}
        self._replied: set[int] = set()
        self._dropped: Counter[int] = Counter()
        self._lines = 0
        self._lost = False

    def see(self, record: Record) -> None:
        """Count."""
        event = record.event
        match event:
            case UtilityReplySent() if event.call_id >= 0:
                self._sent.setdefault(event.call_id, []).append(record)
            case UtilitySettled():
                if event.error in REPLY_OUTCOMES:
                    self._replied.add(event.call_id)
                earlier = self._settled.setdefault(event.call_id, record)
                if earlier is not record:
                    self.violate(
                        f"call id {event.call_id} was settled twice",
                        expected=f"one outcome of call id {event.call_id}",
                        seen=f"outcomes at events {earlier.seq} and {record.seq}",
                        witness=(earlier, record),
                    )
            case UtilityReplyDropped():
                self._dropped[event.call_id] += 1
            case EngineDied():
                self._lost = True  # what it sent last may be lost with its socket
            case LogLine(pattern=pattern) if pattern in UNEXPECTED_REPLY:
                self._lines += 1
            case _:
                pass

    def at_rest(self) -> None:
        """Balance replies against outcomes and drops, by call id."""
        if not self.white or self.fenced is None or self._lost or not self.state.sound:
            return
        for call_id, sent in self._sent.items():
            due = len(sent) - (call_id in self._replied)
            if due <= 0:
                continue
            self.exercised += due
            if self._dropped[call_id] < due:
                self._violate(call_id, due, self._dropped[call_id], sent)

    def at_end(self) -> None:
        """Balance a black box by its log."""
        if self.white or "see.log" not in self.context.capabilities or self.ended is None:
            return
        if self._lost or not self.state.sound:
            return
        repeated = {c: sent for c, sent in self._sent.items() if len(sent) > 1}
        due = sum(len(sent) - 1 for sent in repeated.values())
        self.exercised += due
        if self._lines < due:
            call_id, sent = next(iter(repeated.items()))
            self._violate(call_id, due, self._lines, sent)

    def _violate(self, call_id: int, due: int, seen: int, sent: list[Record]) -> None:
        self.violate(
            f"a reply to call id {call_id} resolved nothing and was not recorded as dropped",
            expected=f"{due} dropped replies",
            seen=f"{seen} dropped replies",
            witness=sent,
        )
