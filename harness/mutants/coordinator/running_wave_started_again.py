"""An engine's start of the wave that runs is passed on again."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState
from client.protocol.ids import Wave
from client.protocol.messages import StartDpWave
from harness.mutants.base import Mutant


class PassesAllOn(CoordinatorState):
    """Looks at the number alone."""

    def on_start_wave(self, wave: Wave, engine_index: int) -> StartDpWave | None:
        """Broadcast the start of every wave that is not over."""
        if wave < self.current_wave:
            return None
        self.current_wave = wave
        self.engines_running = True
        return StartDpWave(wave, engine_index)


class RunningWaveStartedAgain(Mutant):
    """See the module."""

    id = "running-wave-started-again"
    family = "coordinator"
    title = "a start of the wave that runs is broadcast again"
    bug = "The late one may wake engines into a wave that is over by then."
    source = "protocol page, section 11.1 (table of transitions); a seeded fault"
    killed_by = "wave.engine-start-rebroadcast-once"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=PassesAllOn)
