"""Ranks pause one by one, and a wake-up sets a paused one going."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN, OnePhase
from mock_engines.parts import EngineParts


class PauseReturnsEarly(Mutant):
    """See the module."""

    id = "pause-returns-early"
    family = "lockstep"
    title = "a pause is answered by each rank alone, and a request for a paused one wakes its peers"
    bug = (
        "A rank that was told to be paused steps alone, while the others are in the collective "
        "that the pause was for."
    )
    source = "https://github.com/vllm-project/vllm/issues/36594"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=OnePhase)
