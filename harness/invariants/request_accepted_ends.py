"""Invariant request.accepted-ends."""

from __future__ import annotations

from harness.invariants._calls import Call
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import Kind, RunContext
from harness.trace.events import ConnectEnded, Healed, Record
from mock_engines.events import EngineDied


class AcceptedEnds(RequestInvariant):
    """Every call ends for its caller.

    Statement: Once all faults are healed, every call that began has ended, finished, failed or
        cancelled, unless the engine that has it never ended it, or vanished without a word.
    Reason: A caller whose answer was lost inside the frontend waits for ever.
    Source: protocol page, sections 5.3 (a fatal error ends everything), 8.1 and 22 (4).
    Limits: Judged after healing. Left out: calls that the scenario leaves open, calls at an
        engine that closed or vanished (no release notices, protocol page, section 16), and calls
        that their engine still has.
    """

    id = "request.accepted-ends"
    kind = Kind.EVENTUALLY
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((Healed, ConnectEnded, EngineDied))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._healed = False
        self._connected = True
        self._silent_deaths = False

    def see(self, record: Record) -> None:
        """Notice healing and silent deaths."""
        match record.event:
            case Healed():
                self._healed = True
            case ConnectEnded(error=error) if error is not None:
                self._connected = False
            case EngineDied(how="close" | "vanish"):
                self._silent_deaths = True
            case _:
                pass

    def at_rest(self) -> None:
        """Judge what is still open."""
        lost: list[tuple[Call, list[Record]]] = []
        for call in self.calls.calls.values():
            if not call.open:
                self.exercised += 1
            elif call.op not in self.open_on_purpose and self._connected:
                evidence = self._evidence(call)
                if evidence is not None:
                    lost.append((call, evidence))
        if not lost or self.ended is None:
            return
        self.exercised += len(lost)
        if not self._healed:
            self.unjudged = "the run was not healed"
            return
        call, evidence = lost[0]
        self.violate(
            f"call {call.op} never ended for its caller",
            expected=f"call {call.op} ended by event {self.ended.seq}",
            seen=f"call {call.op} still open",
            witness=(call.started, *evidence, self.ended),
        )

    def _evidence(self, call: Call) -> list[Record] | None:
        """Why the call should have ended; ``None`` if that is not the frontend's doing."""
        external = call.event.external_id
        shared = len(self.calls.of_request(external)) > 1
        episodes = [
            e for e in self.adds.episodes if any(other.op == call.op for other in self.calls_of(e))
        ]
        failed = self.state.failed
        if failed is not None and failed.seq > call.started.seq:
            return [failed]
        if not episodes:
            return None if self._silent_deaths or shared or not self.state.sound else []
        if shared and any(episode.open for episode in episodes):
            return None
        episode = episodes[-1]
        if episode.finish is not None:
            return [episode.add, episode.finish]
        if episode.aborts:
            return [episode.add, episode.aborts[0]]
        if episode.died is not None and isinstance(episode.died.event, EngineDied):
            # It said its last word to whoever listens.
            said = episode.died.event.how == "sentinel"
            return [episode.add, episode.died] if said else None
        return None
