"""A completed wave is counted, not looked at."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState
from client.protocol.ids import Wave
from harness.mutants.base import Mutant


class Counts(CoordinatorState):
    """One notice, one wave."""

    def on_wave_complete(self, wave: Wave) -> None:
        """Go on by one, whichever wave is over."""
        del wave
        self.current_wave = Wave(self.current_wave + 1)
        self.engines_running = False


class CompletionsCounted(Mutant):
    """See the module."""

    id = "completions-counted"
    family = "coordinator"
    title = "each wave_complete advances the wave by one"
    bug = "A notice that comes twice puts the coordinator a wave ahead of its engines."
    source = "protocol page, section 11.1; a seeded fault"
    killed_by = "wave.complete-advances-once"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=Counts)
