"""A new rank does not take its peers' wave over."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.collectives import Change
from mock_engines.lockstep.rank import Rank
from mock_engines.parts import EngineParts


class StaysAtZero(Rank):
    """Meets its peers, and stays as it was; those who were there are right."""

    def _take_over(self, agreed: Change) -> None:
        if self.wave > 0 or self.running:
            super()._take_over(agreed)


class NewRankKeepsWaveZero(Mutant):
    """See the module."""

    id = "new-rank-keeps-wave-zero"
    family = "lockstep"
    title = "a new rank keeps wave 0"
    bug = (
        "A request of a past wave is no older than the rank's own, so that its start_wave is of a "
        "wave that is over for the coordinator, and nobody is woken."
    )
    source = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/engine/coordinator.py (the "
        "comment on 0 < request.wave < current_wave of new engines)"
    )
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the rank."""
        return replace(base, rank=StaysAtZero)
