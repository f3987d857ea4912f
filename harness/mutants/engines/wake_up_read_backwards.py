"""An engine that is not left out of a wake-up sleeps on, and the one that is wakes."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from mock_engines.parts import EngineParts
from mock_engines.waves import AutoWaves, SendNotice


class ReadsItBackwards(AutoWaves):
    """Takes the engine that is left out for the one that is meant."""

    def start_dp_wave(self, rank: int, *, wave: int, exclude: int | None) -> list[SendNotice]:
        """START_DP_WAVE arrived at a rank: it is for the one that it names."""
        if exclude is not None and exclude != rank:
            return []
        return super().start_dp_wave(rank, wave=wave, exclude=None)


class WakeUpReadBackwards(Mutant):
    """See the module."""

    id = "wake-up-read-backwards"
    family = "engine wave rules"
    title = "a wake-up is followed by the engine that it leaves out"
    bug = "All others sleep, and the one that has the request waits for them."
    source = "protocol page, section 13; a seeded fault"
    killed_by = "wave.ends-when-idle"
    hidden_because = (
        "engines are the harness's own, whatever frontend is judged; and a wave is judged in "
        "simulation only, where nothing is under way at a fence"
    )

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the wave rules."""
        return replace(base, waves=ReadsItBackwards)
