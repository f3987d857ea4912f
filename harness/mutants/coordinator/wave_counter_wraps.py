"""The wave counter wraps at the end of its range."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState
from client.protocol.ids import U32_MAX, Wave
from harness.mutants.base import Mutant


class Wraps(CoordinatorState):
    """A counter of 32 bits."""

    def on_wave_complete(self, wave: Wave) -> None:
        """Go on to the next wave, which is 0 behind the last one."""
        super().on_wave_complete(wave)
        self.current_wave = Wave(self.current_wave & U32_MAX)


class WaveCounterWraps(Mutant):
    """See the module."""

    id = "wave-counter-wraps"
    family = "coordinator"
    title = "the wave counter starts again at 0"
    bug = "Every later request is stale, and every later wake-up is ignored."
    source = "released Rust frontends, 0.22 to 0.33 (observed; no report)"
    killed_by = "wave.never-rewinds"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=Wraps)
