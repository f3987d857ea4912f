"""Which engine gets a request: the explicit rank, or the lowest load score.

Engines are kept in order of identity *bytes*: ranks {1, 2, 256} are ordered 256, 1, 2. That is
the order of ties and of the ranks that an error names.

Source: Rust ``engine-core-client/src/client/state.rs``, PR #51178 (an explicit rank is a global
rank, and is refused rather than truncated); protocol page, sections 7.1 and 7.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from client.errors import InvalidDataParallelRank
from client.protocol.ids import RANKS_MAX, Identity, identity_from_rank, rank_from_identity

InFlight = Callable[[Identity], int]
"""How many requests this client has in flight at an engine."""


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """Requests that an engine reported last; they stay until replaced."""

    running: int
    waiting: int


class Routing:
    """Reported load of each engine, and the choice."""

    def __init__(self, engines: Iterable[Identity], *, waiting_weight: int) -> None:
        """Begin without reports.

        Args:
            engines: identities of all connected engines.
            waiting_weight: how much a waiting request counts on top (3 up to 0.26, else 0).
        """
        self._engines = tuple(sorted(engines))
        self._reports: dict[Identity, ReportedLoad] = {}
        self._waiting_weight = waiting_weight

    def use(self, engines: Iterable[Identity]) -> None:
        """Choose among these engines from now on; reports of others are forgotten."""
        self._engines = tuple(sorted(engines))
        self._reports = {
            each: seen for each, seen in self._reports.items() if each in self._engines
        }

    def apply_stats(self, engine_index: int, stats: Mapping[str, Any]) -> bool:
        """Take over scheduler stats; ``False``: of no connected engine, so ignored.

        An index beyond two bytes is no rank: it is never cut down to one (PR #51178).
        """
        if not 0 <= engine_index < RANKS_MAX:
            return False
        identity = identity_from_rank(engine_index)
        if identity not in self._engines:
            return False
        self._reports[identity] = ReportedLoad(
            running=stats.get("num_running_reqs", 0), waiting=stats.get("num_waiting_reqs", 0)
        )
        return True

    def score(self, engine: Identity, in_flight: int) -> int:
        """Load score; the lowest wins."""
        report = self._reports.get(engine)
        if report is None:
            return in_flight
        busy = max(in_flight, report.running + report.waiting)
        return busy + self._waiting_weight * report.waiting

    def identity_for_rank(self, rank: int) -> Identity | None:
        """Identity of an explicit rank; ``None`` when no identity can name it."""
        return identity_from_rank(rank) if 0 <= rank < RANKS_MAX else None

    def choose(self, explicit_rank: int | None, in_flight: InFlight) -> Identity:
        """Choose the engine of a request. Ties go to the smallest identity bytes.

        Raises:
            InvalidDataParallelRank: no connected engine has the explicit rank.
        """
        if explicit_rank is None:
            return min(self._engines, key=lambda engine: self.score(engine, in_flight(engine)))
        identity = self.identity_for_rank(explicit_rank)
        if identity is None or identity not in self._engines:
            raise InvalidDataParallelRank(explicit_rank, self.connected_ranks())
        return identity

    def connected_ranks(self) -> list[int]:
        """Global ranks in order of identity bytes."""
        ranks = (rank_from_identity(engine) for engine in self._engines)
        return [rank for rank in ranks if rank is not None]
