"""Invariant routing.score-matches."""

from __future__ import annotations

from dataclasses import dataclass, field

from client.events import EnginesChanged, RequestRegistered, RequestReleased
from client.protocol.ids import RANKS_MAX, identity_from_rank
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import RunContext
from harness.trace.events import Fenced, Record
from mock_engines.events import StatsSent


@dataclass(slots=True)
class Load:
    """One engine as routing may see it.

    ``stats``: running and waiting that may be in force now, oldest first; ``None`` = none yet.
    Those behind the first may still be under way.
    """

    in_flight: int = 0
    stats: list[tuple[int, int] | None] = field(default_factory=lambda: [None])


class ScoreMatches(RunInvariant):
    """Without a rank a request goes to the engine with the lowest score.

    Statement: For every request registered without an explicit rank, the chosen engine has the
        lowest score (in-flight requests; once stats are known, the greater of those and running
        plus waiting, plus the release's weight of waiting), ties going to the smallest identity.
    Reason: A count that drifts, or a tie that is broken otherwise, piles requests on one engine.
    Source: Rust ``engine-core-client`` load balancing, measured per release; protocol page,
        section 7.1.
    Limits: Reference client only. Stats that may be still under way count as either in force or
        not; a choice is wrong only if it is wrong in every case. A fence settles what was sent.
    """

    id = "routing.score-matches"
    needs = frozenset({"see.client-events", "see.wire"})
    handles = event_types((RequestRegistered, RequestReleased, StatsSent, EnginesChanged, Fenced))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._weight = context.profile.waiting_weight
        self._loads = {rank: Load() for rank in context.ranks if 0 <= rank < RANKS_MAX}
        self._where: dict[str, int] = {}

    def see(self, record: Record) -> None:
        """Keep the loads; judge a choice."""
        event = record.event
        match event:
            case RequestRegistered():
                if event.explicit_rank is None and event.engine in self._loads:
                    self._choice(record, event)
                if event.engine in self._loads:
                    self._where[event.request_id] = event.engine
                    self._loads[event.engine].in_flight += 1
            case RequestReleased():
                engine = self._where.pop(event.request_id, None)
                if engine in self._loads:
                    self._loads[engine].in_flight -= 1
            case StatsSent(path="main") if event.engine_index in self._loads:
                self._loads[event.engine_index].stats.append((event.running, event.waiting))
            case EnginesChanged():
                # Who left and comes back begins anew.
                known = self._loads
                self._loads = {rank: known.get(rank, Load()) for rank in event.routed}
            case Fenced():
                for load in self._loads.values():
                    del load.stats[:-1]
            case _:
                pass

    def _score(self, load: Load, stats: tuple[int, int] | None) -> int:
        if stats is None:
            return load.in_flight
        running, waiting = stats
        return max(load.in_flight, running + waiting) + self._weight * waiting

    def _choice(self, record: Record, event: RequestRegistered) -> None:
        if len(self._loads) < 2:
            return
        self.exercised += 1
        scores = {
            rank: [self._score(load, stats) for stats in load.stats]
            for rank, load in self._loads.items()
        }
        chosen = (min(scores[event.engine]), identity_from_rank(event.engine))
        for rank, possible in scores.items():
            if rank != event.engine and chosen > (max(possible), identity_from_rank(rank)):
                self.violate(
                    f"request {event.request_id} went to engine {event.engine}, whose load is"
                    f" higher than that of engine {rank}",
                    expected=f"engine {rank}, score {max(possible)}",
                    seen=f"engine {event.engine}, score {chosen[0]}",
                    witness=(record,),
                )
                return
