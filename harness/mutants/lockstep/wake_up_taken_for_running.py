"""The external coordinator believes that engines run once it has woken them."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import FirstRequest
from client.external_coordinator import Effect, ExternalCoordinatorState
from harness.mutants.base import Mutant


class Predicts(ExternalCoordinatorState):
    """Marks the engines as running when it passes a wake-up on, as up to 0.28."""

    def on_first_request(self, request: FirstRequest) -> list[Effect]:
        """A frontend submitted a request while it believed the engines paused."""
        effects = super().on_first_request(request)
        if effects and self._profile.frontend_starts_waves and not self.engines_running:
            self.engines_running = True
            effects.append(self._publish_waves())
        return effects


class WakeUpTakenForRunning(Mutant):
    """See the module."""

    id = "wake-up-taken-for-running"
    family = "lockstep"
    title = "a wake-up that the coordinator passes on marks the engines as running"
    bug = (
        "Paused engines ignore it, so that nothing ever takes the mark back, and the first request "
        "after the pause wakes nobody."
    )
    source = "https://github.com/vllm-project/vllm/pull/51481 (coordinators up to 0.28)"
    killed_by = "lockstep.agrees-at-rest"
    needs = "frontend_starts_waves"
    hidden_because = "a coordinator that is a process of its own is no part of the frontend"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator."""
        return replace(base, external_coordinator=Predicts)
