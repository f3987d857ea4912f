"""A rank that is told to end leaves as soon as its own requests have ended."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Part, Rank, Shutdown
from mock_engines.parts import EngineParts


class LooksAtItselfOnly(Rank):
    """Does not ask whether its peers still need it."""

    def _goes_on(self) -> Part:
        goes_on = yield from super()._goes_on()
        if self.shutdown is Shutdown.NO:
            return goes_on
        return self.scheduler.has_work


class RankLeavesWhenItIsDone(Mutant):
    """See the module."""

    id = "rank-leaves-when-it-is-done"
    family = "lockstep"
    title = "a rank that has nothing left to do leaves while its peers are at work"
    bug = "They wait for it in their next step for ever."
    source = "https://github.com/vllm-project/vllm/issues/18932"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=LooksAtItselfOnly)
