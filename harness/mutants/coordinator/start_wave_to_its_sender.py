"""The sender of a start_wave is not left out."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from client.components import Components
from client.coordinator import CoordinatorState
from client.protocol.ids import Wave
from client.protocol.messages import StartDpWave
from harness.mutants.base import Mutant


class ToTheSenderToo(CoordinatorState):
    """Tells an engine what it has just said."""

    def on_start_wave(self, wave: Wave, engine_index: int) -> StartDpWave | None:
        """Broadcast to all engines."""
        broadcast = super().on_start_wave(wave, engine_index)
        return broadcast and msgspec.structs.replace(broadcast, exclude_engine_index=None)


class StartWaveToItsSender(Mutant):
    """See the module."""

    id = "start-wave-to-its-sender"
    family = "coordinator"
    title = "a start_wave is broadcast to its sender too"
    bug = "An engine that has paused meanwhile is woken by its own word."
    source = (
        "https://github.com/vllm-project/vllm/pull/36594 (wake-ups that arm a paused rank again)"
    )
    killed_by = "wave.engine-start-rebroadcast-once"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=ToTheSenderToo)
