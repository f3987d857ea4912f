"""Invariant utility.error-lowest-engine."""

from __future__ import annotations

from client.events import UtilitySettled
from harness.invariants._fanouts import FanOut, FanOutBook, engine_order
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record, UtilityEnded


class ErrorLowestEngine(RunInvariant):
    """Of several failing engines the caller sees the error of the lowest one in engine order.

    Statement: Whenever a utility call fails and more than one engine failed, the error that its
        caller sees is the one of the first failing engine in engine order.
    Reason: An error that depends on which engine was faster cannot be tested or searched for.
    Source: vllm#52671; protocol page, section 9.2.
    Limits: Engine order is the order of identity bytes, or of indices in bootstrapped mode. On a
        black box only failure messages of engines are compared, and only if they differ.
        Concurrent calls of one method on a black box are left out.
    """

    id = "utility.error-lowest-engine"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((UtilityEnded,))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.fans = context.shelf.book(FanOutBook, context)
        self._order = engine_order(context)

    def see(self, record: Record) -> None:
        """Judge a failed call."""
        event = record.event
        if not isinstance(event, UtilityEnded) or event.outcome != "failed":
            return
        fan = self.fans.fans.get(event.op)
        if fan is None or fan.ended is not record or fan.ambiguous or not self.state.sound:
            return
        if not fan.settled_by_frontend:
            return
        texts = self._texts(fan)
        names = self._names(fan)
        if len(names or texts) < 2:
            return
        self.exercised += 1
        if names:
            first = next(engine for engine in self._order if engine in names)
            if event.error != names[first]:
                self._violate(fan, record, first, names[first], str(event.error))
                return
        self._compare_texts(fan, record, event, texts, names)

    def _compare_texts(
        self,
        fan: FanOut,
        record: Record,
        event: UtilityEnded,
        texts: dict[int, str],
        names: dict[int, str],
    ) -> None:
        failing = [engine for engine in self._order if engine in (names or texts)]
        first = failing[0]
        if first not in texts or texts[first] in event.message:
            return  # unknown text: the error's class was compared where it is known
        others = [e for e in failing[1:] if texts.get(e) and texts[e] in event.message]
        if others:
            self._violate(fan, record, first, repr(texts[first]), repr(texts[others[0]]))

    def _texts(self, fan: FanOut) -> dict[int, str]:
        """Failure messages by engine."""
        found = {}
        for engine in self._order:
            reply = fan.first_reply(engine)
            if reply is not None and reply.failure:
                found[engine] = reply.failure
        return found

    @staticmethod
    def _names(fan: FanOut) -> dict[int, str]:
        """Error classes by engine, where the client tells them."""
        events = [r.event for r in fan.settled.values() if isinstance(r.event, UtilitySettled)]
        return {event.engine: event.error for event in events if event.error is not None}

    def _violate(self, fan: FanOut, record: Record, first: int, wanted: str, seen: str) -> None:
        replies = [replies[0] for replies in fan.replies.values()]
        self.violate(
            f"{fan.event.method} failed on several engines and showed another error than that of"
            f" engine {first}",
            expected=f"error of engine {first}: {wanted}",
            seen=f"error: {seen}",
            witness=(*replies, *fan.settled.values(), record),
        )
