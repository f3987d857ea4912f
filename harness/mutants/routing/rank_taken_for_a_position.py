"""An explicit rank is taken for a position among the connected engines."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import InvalidDataParallelRank
from client.protocol.ids import Identity
from client.routing import InFlight, Routing
from harness.mutants.base import Mutant


class ByPosition(Routing):
    """Counts engines from zero, whatever their ranks are."""

    def choose(self, explicit_rank: int | None, in_flight: InFlight) -> Identity:
        """Choose the engine of a request. Raises ``InvalidDataParallelRank`` beyond the last."""
        if explicit_rank is None:
            return super().choose(None, in_flight)
        if explicit_rank >= len(self._engines):
            raise InvalidDataParallelRank(explicit_rank, self.connected_ranks())
        return self._engines[explicit_rank]


class RankTakenForAPosition(Mutant):
    """See the module."""

    id = "rank-taken-for-a-position"
    family = "routing"
    title = "an explicit rank is taken for a position in the list of engines"
    bug = "On a node whose ranks do not begin at 0 each request is served by another rank."
    source = "https://github.com/vllm-project/vllm/pull/51178 (a rank is global)"
    killed_by = "routing.explicit-rank"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the routing."""
        return replace(base, routing=ByPosition)
