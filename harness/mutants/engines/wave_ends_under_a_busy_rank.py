"""A wave completes while a rank still has work."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from mock_engines.parts import EngineParts
from mock_engines.waves import AutoWaves, SendNotice


class NobodyAsked(AutoWaves):
    """Takes a rank that runs for one that is done."""

    def _complete_if_idle(self) -> list[SendNotice]:
        had = {rank: state.has_work for rank, state in self._ranks.items()}
        for state in self._ranks.values():
            state.has_work = False
        effects = super()._complete_if_idle()
        for rank, state in self._ranks.items():
            state.has_work = had[rank]
        return effects


class WaveEndsUnderABusyRank(Mutant):
    """See the module."""

    id = "wave-ends-under-a-busy-rank"
    family = "engine wave rules"
    title = "a wave is reported complete while a rank has work"
    bug = (
        "The coordinator believes the group paused, and the next request starts a wave in the "
        "middle of one."
    )
    source = (
        "https://github.com/vllm-project/vllm/pull/45223 (ranks that decide on different answers)"
    )
    killed_by = "wave.ends-when-idle"
    hidden_because = (
        "engines are the harness's own, whatever frontend is judged; and a wave is judged in "
        "simulation only, where nothing is under way at a fence"
    )

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the wave rules."""
        return replace(base, waves=NobodyAsked)
