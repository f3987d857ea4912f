"""Each rank decides by its own count whether the exchange is due."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.parts import EngineParts


class CountsItsOwn(Rank):
    """Does not count the steps in which it had nothing to run."""

    _ran = False

    def _step(self) -> Part:
        self._ran = yield from super()._step()
        return self._ran

    def _exchange(self, unfinished: bool) -> Part:
        if not self._ran and not self.pending_pause and self.step_count > 0:
            return True
        return (yield from super()._exchange(unfinished))


class ExchangeByOwnSteps(Mutant):
    """See the module."""

    id = "exchange-by-own-steps"
    family = "lockstep"
    title = "an exchange is due by a count that ranks do not share"
    bug = "One rank is in the exchange, the other in the next forward pass, and both stay there."
    source = "https://github.com/vllm-project/vllm/pull/45223 (ranks that act on different answers)"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=CountsItsOwn)
