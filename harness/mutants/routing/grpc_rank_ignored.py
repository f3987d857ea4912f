"""The rank in gRPC metadata is read and forgotten."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.rank_metadata import RankTexts, RawValue
from harness.mutants.base import Mutant


class HeaderOnly(RankTexts):
    """Knows HTTP."""

    def metadata(self, raw: RawValue) -> int | None:
        """Leave the choice of the engine to load balancing. Raises as the right one does."""
        super().metadata(raw)
        return None


class GrpcRankIgnored(Mutant):
    """See the module."""

    id = "grpc-rank-ignored"
    family = "routing"
    title = "the rank in gRPC metadata has no effect"
    bug = "A request goes where its KV cache is not, and the caller cannot notice."
    source = "https://github.com/vllm-project/vllm/pull/51178 (up to 0.27)"
    killed_by = "routing.explicit-rank"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the reading of rank texts."""
        return replace(base, rank_texts=HeaderOnly)
