"""A new rank follows START_DP_WAVE before its group is resumed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Rank
from mock_engines.parts import EngineParts


class HeedsStarts(Rank):
    """Begins as any other rank."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ignores_starts = False


class NewRankHeedsStarts(Mutant):
    """See the module."""

    id = "new-rank-heeds-starts"
    family = "lockstep"
    title = "a new rank follows START_DP_WAVE before the resume"
    bug = (
        "A wake-up that its paused peers ignore lets the new rank run dummy steps, in which it "
        "waits for them, while they wait for it in the resume."
    )
    source = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/engine/core.py "
        "(_eep_scale_up_before_kv_init sets ignore_start_dp_wave, since 0.27)"
    )
    killed_by = "lockstep.no-rank-waits-alone"
    needs = "frontend_starts_waves"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the rank."""
        return replace(base, rank=HeedsStarts)
