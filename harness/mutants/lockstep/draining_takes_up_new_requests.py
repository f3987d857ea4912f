"""A scheduler that is paused for new requests takes them up while others drain."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.scheduler import PauseState, Row, Scheduler
from mock_engines.parts import EngineParts


class OpenDoor(Scheduler):
    """Lets in what waits as long as anything runs."""

    def step(self) -> tuple[list[Row], bool]:
        """Run one step as if nothing were paused, unless all is. Returns its rows, and whether."""
        pause = self.pause
        if pause is PauseState.NEW:
            self.pause = PauseState.UNPAUSED
        try:
            return super().step()
        finally:
            self.pause = pause


class DrainingTakesUpNewRequests(Mutant):
    """See the module."""

    id = "draining-takes-up-new-requests"
    family = "lockstep"
    title = "requests that wait are taken up while a pause drains"
    bug = "A pause that waits for what runs never comes to its end under load."
    source = "vLLM ``v1/core/sched/scheduler.py`` (``PauseState.PAUSED_NEW``); a seeded fault"
    killed_by = "lockstep.paused-runs-nothing"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the scheduler."""
        return replace(base, scheduler=OpenDoor)
