"""Every request of a paused group is a first one."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState, FirstRequest
from harness.mutants.base import Mutant


class NoLatch(CoordinatorState):
    """Believes the engines paused until the runner has acted."""

    def notify_first_request(self, target: int) -> FirstRequest | None:
        """Queue a first request, and go on believing that nothing runs."""
        before = self.engines_running
        request = super().notify_first_request(target)
        self.engines_running = before
        return request


class EveryRequestIsAFirstOne(Mutant):
    """See the module."""

    id = "every-request-is-a-first-one"
    family = "coordinator"
    title = "ten first requests at once make ten wake-ups"
    bug = "The wave is broadcast again and again, each time without another engine."
    source = "protocol page, section 6.2 (the flag flips before the runner acts); a seeded fault"
    killed_by = "wave.first-request-marks-running"
    needs = "frontend_starts_waves"
    hidden_because = (
        "the second request must come before the first one is handled, and nothing outside can "
        "hold a first request in the queue"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=NoLatch)
