"""Every rank reports the end of a wave."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import COORDINATOR, Notice, Send
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class NoSpokesman(Rank):
    """Does not leave it to rank 0."""

    def _wave_over(self) -> Part:
        if self.rank != 0:
            yield Send(COORDINATOR, Notice("complete", self.wave))
        yield from super()._wave_over()


class EveryRankEndsTheWave(Mutant):
    """See the module."""

    id = "every-rank-ends-the-wave"
    family = "lockstep"
    title = "every rank of a group reports the end of a wave"
    bug = "A report that is late counts once more wherever completions are counted."
    source = "protocol page, section 13 (rank 0 reports); a seeded fault"
    killed_by = "lockstep.wave-completes-once"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=NoSpokesman)
