"""A request near its limit skips the forward pass of the drafter."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.effects import Enter
from mock_engines.lockstep.rank import Loop, Rank
from mock_engines.lockstep.scheduler import Row, Scheduler
from mock_engines.parts import EngineParts


class Remembers(Scheduler):
    """Knows whether a request ended in the last step."""

    ended = False

    def step(self) -> tuple[list[Row], bool]:
        """Run one step."""
        rows, executed = super().step()
        self.ended = any(row.finish == "length" for row in rows)
        return rows, executed


class SkipsTheDraft(Rank):
    """Has a second forward pass in each step, that of a drafter; leaves it out at an end."""

    def loop(self) -> Loop:
        """Run, and draft behind each forward pass."""
        inner = super().loop()
        answer = None
        while True:
            try:
                effect = inner.send(answer)
            except StopIteration:
                return
            answer = yield effect
            ended = isinstance(self.scheduler, Remembers) and self.scheduler.ended
            if isinstance(effect, Enter) and effect.group == "device" and not ended:
                yield Enter("device", "draft")


class DrafterSkippedNearTheEnd(Mutant):
    """See the module."""

    id = "drafter-skipped-near-the-end"
    family = "lockstep"
    title = "a rank whose request is about to end skips the drafter"
    bug = "Its peers wait in the drafter, it waits in the next forward pass."
    source = "https://github.com/vllm-project/vllm/issues/44185, #44954"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank, and its scheduler."""
        return replace(base, rank=SkipsTheDraft, scheduler=Remembers)
