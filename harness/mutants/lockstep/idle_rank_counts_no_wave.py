"""A rank that had no request in a wave does not count it."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import AddInput
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class CountsItsOwn(Rank):
    """Counts the waves in which it had a request; rank 0 counts all."""

    _had_request = False

    def _add(self, item: AddInput) -> Part:
        self._had_request = True
        yield from super()._add(item)

    def _wave_over(self) -> Part:
        wave = self.wave
        yield from super()._wave_over()
        if self.rank != 0 and not self._had_request:
            self.wave = wave
        self._had_request = False


class IdleRankCountsNoWave(Mutant):
    """See the module."""

    id = "idle-rank-counts-no-wave"
    family = "lockstep"
    title = "a rank counts only the waves in which it had a request"
    bug = "It takes the wake-up of a wave that is over for a current one, and its peers do not."
    source = "protocol page, section 13; a seeded fault"
    killed_by = "lockstep.waves-agree"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=CountsItsOwn)
