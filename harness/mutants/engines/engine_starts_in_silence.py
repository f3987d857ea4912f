"""An engine does not announce the wave that a request starts."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from mock_engines.parts import EngineParts
from mock_engines.waves import START, AutoWaves, SendNotice


class StaleOnly(AutoWaves):
    """The engines of 0.32, beside a frontend of 0.33 that counts on them."""

    def added(self, rank: int, *, wave: int, paused: bool = False) -> list[SendNotice]:
        """ADD arrived: announce a stale one, begin a current one in silence."""
        stale = wave < self.wave(rank)
        effects = super().added(rank, wave=wave, paused=paused)
        return [each for each in effects if stale or each.notice != START]


class EngineStartsInSilence(Mutant):
    """See the module."""

    id = "engine-starts-in-silence"
    family = "engine wave rules"
    title = "an engine begins a wave and tells nobody"
    bug = "Its peers sleep, and it waits for them in a collective."
    source = (
        "https://github.com/vllm-project/vllm/issues/51983, #54762 (engines up to 0.32 under a "
        "newer frontend)"
    )
    killed_by = "wave.ends-when-idle"
    needs = "engine_starts_current_wave"
    hidden_because = (
        "engines are the harness's own, whatever frontend is judged; and a wave is judged in "
        "simulation only, where nothing is under way at a fence"
    )

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the wave rules."""
        return replace(base, waves=StaleOnly)
