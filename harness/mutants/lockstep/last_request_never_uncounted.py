"""A rank that has nothing left does not say so."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class KeepsTheLast(Rank):
    """Takes a count of nothing for one that nobody needs."""

    def _publish(self) -> Part:
        if self.scheduler.counts != (0, 0):
            yield from super()._publish()


class LastRequestNeverUncounted(Mutant):
    """See the module."""

    id = "last-request-never-uncounted"
    family = "lockstep"
    title = "counts of nothing are not reported"
    bug = "A rank that has been busy once looks busy for ever, and gets no further request."
    source = "vLLM ``v1/engine/core.py`` (``_maybe_publish_request_counts``); a seeded fault"
    killed_by = "lockstep.counts-converge"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=KeepsTheLast)
