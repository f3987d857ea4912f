"""A step without tokens is taken for one in which the model ran."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class TakesItForRun(Rank):
    """Leaves out the dummy batch when its scheduler had only to forget an aborted request."""

    def _step(self) -> Part:
        only_forgets = self.scheduler.has_work and self.scheduler.unfinished == 0
        executed = yield from super()._step()
        return executed or only_forgets


class EmptyStepCountsAsRun(Mutant):
    """See the module."""

    id = "empty-step-counts-as-run"
    family = "lockstep"
    title = "a step that schedules no token skips its forward pass"
    bug = (
        "The rank is one collective ahead of its peers from then on, and much later all wait "
        "for each other."
    )
    source = (
        "https://github.com/vllm-project/vllm/issues/43547, #28774 (the same with asynchronous "
        "scheduling), #51984"
    )
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=TakesItForRun)
