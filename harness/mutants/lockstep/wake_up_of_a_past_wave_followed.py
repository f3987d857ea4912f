"""A wake-up for a wave that is over starts the next one."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import Ignored, StartInput
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class CountsNoWaves(Rank):
    """Takes every wake-up for a new one."""

    def _start(self, item: StartInput) -> Part:
        if self.ignores_starts or item.exclude == self.rank:
            yield Ignored(item, "paused, or left out")
            return
        self.wave = max(self.wave, item.wave)
        self.running = True


class WakeUpOfAPastWaveFollowed(Mutant):
    """See the module."""

    id = "wake-up-of-a-past-wave-followed"
    family = "lockstep"
    title = "a wake-up for a wave that is over is followed"
    bug = "The rank that it reaches late begins a wave of which no other rank knows."
    source = "https://github.com/vllm-project/vllm/pull/16277 (why waves are numbered)"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=CountsNoWaves)
