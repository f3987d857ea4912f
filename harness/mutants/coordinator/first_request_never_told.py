"""Nobody tells the coordinator of a first request."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState, FirstRequest
from harness.mutants.base import Mutant


class SaysNothing(CoordinatorState):
    """Leaves waves to the engines, in a release whose engines leave them to the frontend."""

    def notify_first_request(self, target: int) -> FirstRequest | None:
        """Mark the engines as running, and tell nobody."""
        super().notify_first_request(target)
        return None


class FirstRequestNeverTold(Mutant):
    """See the module."""

    id = "first-request-never-told"
    family = "coordinator"
    title = "no first request reaches the coordinator"
    bug = (
        "The peers of the engine that has the request sleep, and it waits for them in a collective."
    )
    source = "https://github.com/vllm-project/vllm/issues/54762, #45043"
    killed_by = "wave.ends-when-idle"
    needs = "frontend_starts_waves"
    hidden_because = (
        "a wave that does not end is judged in simulation only, where nothing is under way at a "
        "fence"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=SaysNothing)
