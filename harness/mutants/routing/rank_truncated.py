"""The routing of releases up to 0.27: an explicit rank is cut down to two bytes."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.protocol.ids import RANKS_MAX, Identity, identity_from_rank
from client.routing import Routing
from harness.mutants.base import Mutant


class TruncatingRouting(Routing):
    """Finds an identity for every number."""

    def identity_for_rank(self, rank: int) -> Identity | None:
        """Keep the low two bytes: 65,536 is served by rank 0."""
        return identity_from_rank(rank % RANKS_MAX)


class RankTruncated(Mutant):
    """See the module."""

    id = "rank-truncated"
    family = "routing"
    title = "an explicit rank is truncated to two bytes"
    bug = "A request for a rank that does not exist is served by another one."
    source = "https://github.com/vllm-project/vllm/pull/51178"
    killed_by = "routing.explicit-rank"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the routing."""
        return replace(base, routing=TruncatingRouting)
