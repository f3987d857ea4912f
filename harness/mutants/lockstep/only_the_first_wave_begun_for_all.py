"""Wave 0 is begun for all at startup, and every later one in silence."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.current_wave_begun_in_silence import StaleOnly
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Loop
from mock_engines.parts import EngineParts


class BegunAtStartup(StaleOnly):
    """Was woken into wave 0 before anybody asked for anything."""

    def loop(self) -> Loop:
        """Run, in wave 0 at once."""
        self.running = True
        return super().loop()


class OnlyTheFirstWaveBegunForAll(Mutant):
    """See the module."""

    id = "only-the-first-wave-begun-for-all"
    family = "lockstep"
    title = "wave 0 is begun for all ranks at startup, later ones in silence"
    bug = (
        "Without a request wave 0 is over at once, and the first request of wave 1 finds its "
        "peers asleep."
    )
    source = (
        "https://github.com/vllm-project/vllm/pull/54762 (open; an incomplete answer to #51983)"
    )
    killed_by = "lockstep.no-rank-waits-alone"
    needs = "engine_starts_current_wave"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=BegunAtStartup)
