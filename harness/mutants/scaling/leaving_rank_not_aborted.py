"""An engine that leaves is frozen like the others, and takes along what it has."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.scaling import KEEP, Scaling
from harness.mutants.base import Mutant
from harness.mutants.scaling import HIDDEN


class FreezesAll(Scaling):
    """Pauses engines that leave in the mode of those that stay."""

    def pause_of_leaving(self) -> str:
        """Freeze what they have."""
        return KEEP


class LeavingRankNotAborted(Mutant):
    """See the module."""

    id = "leaving-rank-not-aborted"
    family = "elastic changes"
    title = "what a leaving engine has is not aborted"
    bug = "The engine ends with its requests, and no output ever tells their callers."
    source = (
        "https://github.com/vllm-project/vllm/blob/v0.26.0/vllm/v1/engine/core_client.py (until "
        "0.26 engines that left were not paused at all; since 0.27 with mode abort)"
    )
    killed_by = "elastic.leaving-rank-loses-nothing"
    hidden_because = HIDDEN

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the change."""
        return replace(base, scaling=FreezesAll)
