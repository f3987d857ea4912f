"""An idle rank begins the current wave and tells nobody."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import COORDINATOR, Notice, Send
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.lockstep.scheduler import PauseState
from mock_engines.parts import EngineParts


class StaleOnly(Rank):
    """Announces older waves only, as engines do up to 0.32."""

    def _of_wave(self, wave: int) -> Part:
        stale = wave < self.wave
        self.wave = max(self.wave, wave)
        if stale and not self.running and self.scheduler.pause is PauseState.UNPAUSED:
            self.running = True
            yield Send(COORDINATOR, Notice("start", self.wave))


class CurrentWaveBegunInSilence(Mutant):
    """See the module."""

    id = "current-wave-begun-in-silence"
    family = "lockstep"
    title = "the first request of the current wave wakes nobody"
    bug = "The peers sleep, and the rank that has the request waits for them in its first step."
    source = "https://github.com/vllm-project/vllm/pull/51983, #45043 (engines up to 0.32)"
    killed_by = "lockstep.no-rank-waits-alone"
    needs = "engine_starts_current_wave"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=StaleOnly)
