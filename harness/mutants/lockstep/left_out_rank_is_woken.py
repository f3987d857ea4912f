"""A wake-up is followed by the rank that it leaves out, and by no other."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import Ignored, StartInput
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class ReadsItBackwards(Rank):
    """Takes the rank that is left out for the one that is meant."""

    def _start(self, item: StartInput) -> Part:
        if item.exclude is not None and item.exclude != self.rank:
            yield Ignored(item, f"it is for engine {item.exclude}")
            return
        yield from super()._start(StartInput(item.wave, None))


class LeftOutRankIsWoken(Mutant):
    """See the module."""

    id = "left-out-rank-is-woken"
    family = "lockstep"
    title = "a rank follows only wake-ups that leave it out"
    bug = "Its peers sleep, and the rank that asked for them waits in its first step."
    source = "protocol page, section 13; a seeded fault"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=ReadsItBackwards)
