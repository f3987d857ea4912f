"""Rank 0 does not report a wave that a pause ends."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import Notice, Send
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class SilentPause(Rank):
    """Keeps it to itself while wake-ups are ignored anyway."""

    def _wave_over(self) -> Part:
        for effect in super()._wave_over():
            if (
                isinstance(effect, Send)
                and isinstance(effect.output, Notice)
                and self.ignores_starts
            ):
                continue
            yield effect


class EndByAPauseNotReported(Mutant):
    """See the module."""

    id = "end-by-a-pause-not-reported"
    family = "lockstep"
    title = "the end of a wave is not reported if a pause brought it"
    bug = "The coordinator stays a wave behind, and every request that follows is a stale one."
    source = "protocol page, section 14 (a pause ends the wave like any other end); a seeded fault"
    killed_by = "lockstep.agrees-at-rest"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=SilentPause)
