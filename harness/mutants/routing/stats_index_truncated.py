"""The engine index of a load report is cut down to two bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from client.components import Components
from client.protocol.ids import RANKS_MAX
from client.routing import Routing
from harness.mutants.base import Mutant


class CutIndex(Routing):
    """Finds an engine for every index."""

    def apply_stats(self, engine_index: int, stats: Mapping[str, Any]) -> bool:
        """Take over stats; 65,537 speaks for rank 1."""
        return super().apply_stats(engine_index % RANKS_MAX, stats)


class StatsIndexTruncated(Mutant):
    """See the module."""

    id = "stats-index-truncated"
    family = "routing"
    title = "the engine index of a load report is truncated"
    bug = "The load of an engine that does not exist keeps requests away from one that does."
    source = "https://github.com/vllm-project/vllm/pull/51178"
    killed_by = "routing.score-matches"
    hidden_because = (
        "the choice of an engine is compared with loads that only the client's own events show; "
        "outside any engine may be right"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the routing."""
        return replace(base, routing=CutIndex)
