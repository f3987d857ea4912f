"""A paused rank keeps requests to itself, and follows a wake-up all the same."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN, GuardsAdds
from mock_engines.parts import EngineParts


class PausedRankFollowsWakeUps(Mutant):
    """See the module."""

    id = "paused-rank-follows-wake-ups"
    family = "lockstep"
    title = (
        "a paused rank announces nothing, but still follows the wake-up that a frontend asked for"
    )
    bug = (
        "The first fix left the second door open: the wake-up of a late request still sets one "
        "paused rank going."
    )
    source = "https://github.com/vllm-project/vllm/pull/37024 (incomplete: #38009, #38761)"
    killed_by = "lockstep.no-rank-waits-alone"
    needs = "frontend_starts_waves"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=GuardsAdds)
