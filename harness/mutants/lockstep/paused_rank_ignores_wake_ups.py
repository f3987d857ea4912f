"""A paused rank ignores every wake-up, also that of a peer which is still at work."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN, GuardsAdds
from mock_engines.lockstep.effects import Ignored, StartInput
from mock_engines.lockstep.rank import Part
from mock_engines.lockstep.scheduler import PauseState
from mock_engines.parts import EngineParts


class HearsNothing(GuardsAdds):
    """Is deaf from the moment in which it was told to pause."""

    def _start(self, item: StartInput) -> Part:
        if self.scheduler.pause is not PauseState.UNPAUSED:
            yield Ignored(item, "the rank is paused")
            return
        yield from super()._start(item)


class PausedRankIgnoresWakeUps(Mutant):
    """See the module."""

    id = "paused-rank-ignores-wake-ups"
    family = "lockstep"
    title = "a rank ignores wake-ups as soon as it was told to pause"
    bug = (
        "A peer that is not told yet, and at work, waits for it in every step; its own pause "
        "never comes about."
    )
    source = "https://github.com/vllm-project/vllm/pull/36608, #38009 (rejected in #39366)"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=HearsNothing)
