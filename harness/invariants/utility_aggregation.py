"""Invariant utility.aggregation."""

from __future__ import annotations

from typing import Any

from harness.invariants._fanouts import FanOut, FanOutBook, engine_order, parse
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.invariants.utility_result_order import replied_values
from harness.trace.events import Record, UtilityEnded

INCONSISTENT = "InconsistentUtilityResults"
_INCONSISTENT_TEXT = "inconsistent results"
_VALUE_TYPES: dict[str, type] = {"get_weight_version": str}


class Aggregation(RunInvariant):
    """The one result of a fan-out follows from all replies.

    Statement: Whenever a utility call ends: if an engine failed, the call failed; a consensus
        method gives the common value, or ``InconsistentUtilityResults`` if the engines differ;
        an AND method is true exactly if every engine said true.
    Reason: The answer of one engine, told as the answer of all, hides that the group is split:
        half asleep, or half without an adapter.
    Source: vllm#43429 (releases up to 0.22.1 take the first engine's value); protocol page,
        section 9.3.
    Limits: Which method has which rule comes from the profile. Replies of another type than
        the method's are left to the decoder. Where a route hides its value (an empty body) only
        success and failure are compared.
    """

    id = "utility.aggregation"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((UtilityEnded,))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.fans = context.shelf.book(FanOutBook, context)
        self._order = engine_order(context)
        profile = context.profile
        self._consensus = profile.consensus_methods
        self._all_true = profile.and_methods

    def see(self, record: Record) -> None:
        """Judge an end."""
        event = record.event
        assert isinstance(event, UtilityEnded)
        fan = self.fans.fans.get(event.op)
        if fan is None or fan.ended is not record or fan.ambiguous or not fan.settled_by_frontend:
            return
        if not self.state.sound or len(fan.calls) < 2:
            return
        if event.outcome == "finished" and (failed := self._failed(fan)):
            self.exercised += 1
            self._violate(fan, record, f"failure, as engine {failed[0]} failed", event)
            return
        values = replied_values(fan, self._order)
        if values is None:
            return
        if fan.event.via == "consensus" or self._rule(fan, self._consensus):
            self._judge_consensus(fan, record, event, values)
        elif self._rule(fan, self._all_true):
            self._judge_and(fan, record, event, values)

    @staticmethod
    def _rule(fan: FanOut, methods: frozenset[str]) -> bool:
        return fan.event.via == "method" and any(name in methods for name in fan.wire_methods)

    def _failed(self, fan: FanOut) -> list[int]:
        replies = ((engine, fan.first_reply(engine)) for engine in self._order)
        return [engine for engine, reply in replies if reply is not None and reply.failure]

    def _judge_consensus(
        self, fan: FanOut, record: Record, event: UtilityEnded, values: list[Any]
    ) -> None:
        known = fan.event.via == "method"
        wanted = _VALUE_TYPES.get(fan.wire_methods[0], bool)
        if known and any(type(value) is not wanted for value in values):
            return
        agreed = all(value == values[0] and type(value) is type(values[0]) for value in values)
        if not known and event.outcome == "failed" and event.error != INCONSISTENT:
            return  # the type that the caller asked for decides, and a decode error names itself
        self.exercised += 1
        told = event.error == INCONSISTENT or _INCONSISTENT_TEXT in event.message
        if not agreed and not (event.outcome == "failed" and told):
            self._violate(fan, record, f"{INCONSISTENT} with {values!r}", event)
        elif agreed and (event.outcome != "finished" or not self._equal(event, values[0])):
            self._violate(fan, record, f"finished with {values[0]!r}", event)

    def _judge_and(
        self, fan: FanOut, record: Record, event: UtilityEnded, values: list[Any]
    ) -> None:
        if any(type(value) is not bool for value in values):
            return
        self.exercised += 1
        result = all(values)
        refused = event.outcome == "failed" and not result and not self.white
        if refused:
            return  # adapter routes turn false into an error
        if event.outcome != "finished" or not self._equal(event, result):
            self._violate(fan, record, f"finished with {result!r}", event)

    def _equal(self, event: UtilityEnded, value: Any) -> bool:
        seen = parse(event.value)
        if not self.white and seen is None:
            return True  # the route shows no value
        return bool(seen == value)

    def _violate(self, fan: FanOut, record: Record, wanted: str, event: UtilityEnded) -> None:
        shown = f"finished with {event.value}" if event.outcome == "finished" else event.error
        self.violate(
            f"{event.method} did not combine the replies of all engines",
            expected=wanted,
            seen=f"{shown}",
            witness=(*(replies[0] for replies in fan.replies.values()), record),
        )
