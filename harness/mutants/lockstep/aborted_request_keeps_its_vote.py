"""A rank goes on saying that it has work after an abort."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import AbortInput, Input
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class CountsTheAborted(Rank):
    """Counts by itself what is unfinished, and forgets aborts in that."""

    _aborted = False

    def handle(self, item: Input) -> Part:
        """Take one input."""
        self._aborted = self._aborted or isinstance(item, AbortInput)
        yield from super().handle(item)

    def _exchange(self, unfinished: bool) -> Part:
        return (yield from super()._exchange(unfinished or self._aborted))


class AbortedRequestKeepsItsVote(Mutant):
    """See the module."""

    id = "aborted-request-keeps-its-vote"
    family = "lockstep"
    title = "a rank counts a request that was aborted as work"
    bug = "The group steps for nobody until its processes are ended."
    source = "protocol page, section 13 (the exchange in which a wave ends); a seeded fault"
    killed_by = "lockstep.comes-to-rest"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=CountsTheAborted)
