"""Invariant handshake.gate-before-ready."""

from __future__ import annotations

from harness.invariants._run import event_types
from harness.invariants.base import Invariant, RunContext
from harness.trace.events import GateWasOpened, Record
from mock_engines.behaviours.model import Join
from mock_engines.events import EngineDied, EngineJoined, GateOpened
from mock_engines.specs import PLAIN_JOIN, script_for


class GateBeforeReady(Invariant):
    """With a coordinator, no engine is ready before its gate, and no gate opens too early.

    Statement: Every engine with a coordinator has received the coordinator's READY before it
        finishes its startup, and no engine receives it while an engine of the topology has not
        begun to join.
    Reason: An engine that starts before all have subscribed misses wake-ups, and its peers wait
        in a collective that it never enters.
    Source: protocol page, sections 3.1 to 3.3 and 22 (13).
    Limits: The gate counts messages, not engines: topologies in which an engine subscribes
        several times, or whose number of engines the client is told wrong, are left out of the
        second half. Engines that are told to skip the gate, and those that join again later, are
        left out.
    """

    id = "handshake.gate-before-ready"
    handles = event_types((EngineJoined, GateOpened, EngineDied, GateWasOpened))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._gates: dict[int, Record] = {}
        self._joined: dict[int, Record] = {}
        self._opened: dict[str, Record] = {}
        self._joins = context.once(_joins)
        told = context.scenario.topology.config.engine_count
        self._counts_fit = told in (None, len(context.ranks)) and not [
            join for join in self._joins.values() if join.subscribe_times > 1
        ]

    def on_event(self, record: Record) -> None:
        """Keep gates; judge joins and openings."""
        event = record.event
        match event:
            case GateWasOpened():
                self._opened.setdefault(event.gate, record)
            case GateOpened():
                if not self._joined and not self._gates:
                    self._first_gate(record)
                self._gates.setdefault(event.engine, record)
            case EngineJoined(coordinator=True):
                self._join(record, event)
            case EngineDied():
                self._gates.pop(event.engine, None)
            case _:
                pass

    def _join(self, record: Record, event: EngineJoined) -> None:
        again = event.engine in self._joined
        self._joined[event.engine] = record
        join = self._joins.get(event.engine, PLAIN_JOIN)
        own_way = join.ready_before_gate or bool(join.skip)
        if again or own_way:
            return
        self.exercised += 1
        if event.engine not in self._gates:
            self.violate(
                f"engine {event.engine} was ready before its gate opened",
                expected=f"READY at engine {event.engine} before event {record.seq}",
                seen=f"no READY at engine {event.engine}",
                witness=(record,),
            )

    def _first_gate(self, record: Record) -> None:
        if not self._counts_fit:
            return
        self.exercised += 1
        for rank, join in self._joins.items():
            absent = join.never is True or "subscribe" in join.skip or join.subscribe_times == 0
            waits = join.gate is not None and join.gate not in self._opened
            if absent or waits:
                self.violate(
                    f"the gate opened although engine {rank} has not subscribed",
                    expected=f"no READY before engine {rank} subscribed",
                    seen=f"READY at event {record.seq}",
                    witness=(record,),
                )


def _joins(context: RunContext) -> dict[int, Join]:
    specs = context.scenario.engines
    return {rank: script_for(rank, specs).join for rank in context.ranks}
