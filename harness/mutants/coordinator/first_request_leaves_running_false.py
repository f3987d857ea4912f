"""A first request wakes the engines, but the coordinator goes on believing them paused."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState, FirstRequest
from client.protocol.messages import StartDpWave
from harness.mutants.base import Mutant


class StaysPaused(CoordinatorState):
    """Forgets that it has just started a wave."""

    def on_first_request(self, request: FirstRequest) -> StartDpWave:
        """Broadcast like the right one; the running flag keeps its value."""
        return StartDpWave(self.current_wave, self.exclude(request))


class FirstRequestLeavesRunningFalse(Mutant):
    """See the module."""

    id = "first-request-leaves-running-false"
    family = "coordinator"
    title = "FirstRequest does not mark the engines as running"
    bug = "After a stale FirstRequest each further request starts the running wave again."
    source = "https://github.com/vllm-project/vllm/pull/46833"
    killed_by = "wave.first-request-marks-running"
    needs = "frontend_starts_waves"
    hidden_because = (
        "the second wake-up of a wave looks like that of a request which was queued before the "
        "first one was handled, and nothing outside can hold a first request in the queue"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=StaysPaused)
