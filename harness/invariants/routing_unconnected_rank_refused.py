"""Invariant routing.unconnected-rank-refused."""

from __future__ import annotations

from client.events import EnginesChanged
from harness.invariants._ranks import REFUSED_RANK, asked
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import CallEnded, Record

DUPLICATE = "DuplicateRequestId"


class UnconnectedRankRefused(RequestInvariant):
    """A rank that no connected engine has is refused, and the caller is told so.

    Statement: Every call that names a rank without a connected engine, and that reached no engine,
        ends failed; where the frontend's error is seen, it is ``InvalidDataParallelRank``.
    Reason: A caller that is served somewhere else, or hangs, cannot correct its rank.
    Source: vllm#51178; protocol page, section 7.3.
    Limits: Ranks are those of the topology, and of the client where it tells that they changed;
        one that was connected for a while during the call is left out. A call whose ADD arrived at some engine is judged by
        ``routing.explicit-rank``. A call that was cancelled, met a frontend that had failed, or
        was refused because its id is in flight, is left out.
    """

    id = "routing.unconnected-rank-refused"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((CallEnded, EnginesChanged))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._routed: list[tuple[int, frozenset[int]]] = [(-1, frozenset(context.ranks))]

    def see(self, record: Record) -> None:
        """Judge the end of such a call."""
        event = record.event
        if isinstance(event, EnginesChanged):
            self._routed.append((record.seq, frozenset(event.routed)))
        if not isinstance(event, CallEnded) or event.outcome == "cancelled":
            return
        call = self.calls.calls.get(event.op)
        if call is None or not self.state.sound:
            return
        rank = asked(call.event).rank
        if rank is None:
            return
        ranks = self._connected_since(call.started)
        if rank in ranks:
            return
        if any(call in self.calls_of(episode) for episode in self.adds.episodes):
            return
        alike = self.calls.of_request(call.event.external_id)
        if event.error == DUPLICATE and len(alike) > 1:
            return
        self.exercised += 1
        named = event.error == REFUSED_RANK or not self.white
        if event.outcome != "failed" or not named:
            connected = sorted(ranks)
            self.violate(
                f"call {event.op} asked for rank {rank}, which is not connected",
                expected=f"failed with {REFUSED_RANK} (connected ranks: {connected})",
                seen=f"{event.outcome} with {event.error}",
                witness=(call.started, record),
            )

    def _connected_since(self, start: Record) -> frozenset[int]:
        """Ranks that got requests at some time since then."""
        before = [ranks for seq, ranks in self._routed if seq <= start.seq]
        since = [ranks for seq, ranks in self._routed if seq > start.seq]
        return frozenset().union(before[-1], *since)
