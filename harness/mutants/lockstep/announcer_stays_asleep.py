"""A rank that announces a wave takes no part in it."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import COORDINATOR, Notice, Send
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.lockstep.scheduler import PauseState
from mock_engines.parts import EngineParts


class TellsAndSleeps(Rank):
    """Counts on the broadcast, which leaves its sender out."""

    def _of_wave(self, wave: int) -> Part:
        stale = wave < self.wave
        self.wave = max(self.wave, wave)
        idle = not self.running and self.scheduler.pause is PauseState.UNPAUSED
        if idle and (stale or self.rules.announces_current):
            yield Send(COORDINATOR, Notice("start", self.wave))


class AnnouncerStaysAsleep(Mutant):
    """See the module."""

    id = "announcer-stays-asleep"
    family = "lockstep"
    title = "a rank that announces a wave does not begin it itself"
    bug = (
        "If its request is gone before the next step, the peers that it woke wait for it: the "
        "broadcast leaves it out."
    )
    source = (
        "https://github.com/vllm-project/vllm/pull/39366 (a review of the two-phase pause, 17 "
        "April 2026)"
    )
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=TellsAndSleeps)
