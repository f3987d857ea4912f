"""Requests run although only some of the memory is back."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Loop, Rank
from mock_engines.parts import EngineParts


class ResumesHalfAwake(Rank):
    """Does not ask whether anything still sleeps, before it resumes or runs a dummy batch."""

    def loop(self) -> Loop:
        """Run by the rules of engines up to 0.23."""
        self.rules = replace(self.rules, resumes_half_awake=True, dummies_asleep=True)
        return super().loop()


class HalfAwakeEngineResumes(Mutant):
    """See the module."""

    id = "half-awake-engine-resumes"
    family = "lockstep"
    title = "wake_up of the weights alone resumes"
    bug = "Requests run on a cache that is not there."
    source = "https://github.com/vllm-project/vllm/pull/44483 (engines up to 0.23)"
    killed_by = "lockstep.paused-runs-nothing"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=ResumesHalfAwake)
