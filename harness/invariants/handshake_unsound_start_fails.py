"""Invariant handshake.unsound-start-fails."""

from __future__ import annotations

from client.protocol.ids import identity_from_rank
from harness.invariants._run import event_types
from harness.invariants.base import Invariant, RunContext
from harness.trace.events import ConnectEnded, Record
from mock_engines.behaviours.model import Join
from mock_engines.specs import script_for


class UnsoundStartFails(Invariant):
    """A client is not connected as long as the startup of an engine is wrong or not over.

    Statement: Startup does not succeed if an engine never comes, leaves out HELLO, READY or its
        registration, says HELLO twice, leaves out a key of its ready response that the release
        needs, or registers with a bootstrapped client that does not expect it.
    Reason: Requests that go to such an engine are lost or wait for ever, and a limit that it did
        not tell is taken from thin air. An operator must read at the start what is missing.
    Source: protocol page, sections 3.1 to 3.4; vllm#21538, vllm#44610, vllm#45557.
    Limits: How the error is called is for expectations. Left out: subscriptions, which are counted
        and not told apart (``handshake.gate-before-ready``); what follows the first registration;
        engines whose bytes are scripted; a client that is told a wrong number of engines.
    """

    id = "handshake.unsound-start-fails"
    needs = frozenset({"see.results"})
    handles = event_types((ConnectEnded,))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._faults = context.once(_faults)

    def on_event(self, record: Record) -> None:
        """Judge how startup ended."""
        event = record.event
        assert isinstance(event, ConnectEnded)
        if not self._faults:
            return
        self.exercised += 1
        if event.error is None:
            self.violate(
                f"startup succeeded although {'; '.join(self._faults)}",
                expected="startup fails",
                seen="the client is connected",
                witness=(record,),
            )


def _faults(context: RunContext) -> tuple[str, ...]:
    """What is wrong with the startup of each engine; nothing if the client is told a wrong number."""
    topology, specs = context.scenario.topology, context.scenario.engines
    if topology.config.engine_count not in (None, len(context.ranks)):
        return ()
    bootstrapped, required = topology.transport == "bootstrapped", context.profile.ready_required
    found = (
        _fault(rank, script_for(rank, specs).join, required, bootstrapped=bootstrapped)
        for rank in context.ranks
    )
    return tuple(fault for fault in found if fault)


def _fault(rank: int, join: Join, required: frozenset[str], *, bootstrapped: bool) -> str:
    """What is wrong with the startup of an engine; ``""`` if nothing is."""
    if join.never:
        return f"engine {rank} never comes"
    parts = ("register",) if bootstrapped else ("hello", "ready", "register")
    times = {"hello": join.hello_times, "register": join.register_times}
    for part in parts:
        if part in join.skip or times.get(part) == 0:
            return f"engine {rank} leaves out {part}"
    if not bootstrapped and join.hello_times > 1 and join.hello_raw is None:
        return f"engine {rank} says HELLO {join.hello_times} times"
    stranger = join.identity not in (None, identity_from_rank(rank).hex())
    if bootstrapped and stranger:
        return f"engine {rank} registers as {join.identity}"
    away = sorted(required.intersection(join.ready_without) - set(join.ready))
    if away and join.ready_raw is None:
        return f"the ready response of engine {rank} lacks {', '.join(away)}"
    return ""
