"""A rank without an engine is taken for an engine that is gone."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import InvalidDataParallelRank, Transport
from client.protocol.ids import Identity
from client.routing import InFlight, Routing
from harness.mutants.base import Mutant


class GoneForNow(Routing):
    """Lets callers believe that a second try may help."""

    def choose(self, explicit_rank: int | None, in_flight: InFlight) -> Identity:
        """Choose the engine of a request. Raises ``Transport`` for a rank that no engine has."""
        try:
            return super().choose(explicit_rank, in_flight)
        except InvalidDataParallelRank as error:
            msg = f"no route to the engine of rank {explicit_rank}"
            raise Transport(msg) from error


class UnconnectedRankLooksGone(Mutant):
    """See the module."""

    id = "unconnected-rank-looks-gone"
    family = "routing"
    title = "a rank that no engine has fails like an engine that is gone"
    bug = (
        "The caller repeats a request that can never be served, and is not told which ranks exist."
    )
    source = (
        "https://github.com/vllm-project/vllm/pull/51178 (up to 0.27 such a call was a server "
        "error)"
    )
    killed_by = "routing.unconnected-rank-refused"
    hidden_because = (
        "outside a refused rank and a lost engine are both a call that failed; their statuses "
        "are compared by scenarios, not by this invariant"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the routing."""
        return replace(base, routing=GoneForNow)
