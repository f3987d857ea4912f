"""What was frozen is lost when the cache is cleared."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.scheduler import Scheduler
from mock_engines.parts import EngineParts


class ClearsTooMuch(Scheduler):
    """Puts nothing back into the queue."""

    def preempt(self) -> None:
        """Forget what runs."""
        self._running = {}


class ClearedCacheLosesWhatWasFrozen(Mutant):
    """See the module."""

    id = "cleared-cache-loses-what-was-frozen"
    family = "lockstep"
    title = "a cleared cache takes the frozen requests with it"
    bug = "Their callers wait for ever, although the engines were resumed."
    source = "protocol page, section 14 (keep freezes what runs); a seeded fault"
    killed_by = "lockstep.resume-runs-what-waits"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the scheduler."""
        return replace(base, scheduler=ClearsTooMuch)
