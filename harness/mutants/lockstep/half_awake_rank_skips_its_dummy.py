"""A rank that is half awake runs no dummy batch, while one that has a request runs."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Loop, Rank
from mock_engines.parts import EngineParts


class ResumesAndSkips(Rank):
    """Resumes whatever still sleeps, and leaves out dummy batches as long as it does."""

    def loop(self) -> Loop:
        """Run by one rule of engines up to 0.23, and by one of later ones."""
        self.rules = replace(self.rules, resumes_half_awake=True, dummies_asleep=False)
        return super().loop()


class HalfAwakeRankSkipsItsDummy(Mutant):
    """See the module."""

    id = "half-awake-rank-skips-its-dummy"
    family = "lockstep"
    title = "a half-awake rank resumes, but runs no dummy batch"
    bug = "The rank that has a request waits in its forward pass for those that have none."
    source = "https://github.com/vllm-project/vllm/pull/44483 (its first part alone, as vime#56 proposed it)"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=ResumesAndSkips)
