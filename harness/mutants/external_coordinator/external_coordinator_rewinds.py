"""The external coordinator goes to the wave of a first request."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import FirstRequest
from client.external_coordinator import Effect, ExternalCoordinatorState
from harness.mutants.base import Mutant


class RewindingProcess(ExternalCoordinatorState):
    """Believes whatever wave a first request carries."""

    def on_first_request(self, request: FirstRequest) -> list[Effect]:
        """Go to the request's wave, then act as on a current one."""
        if not self.engines_running:
            self.current_wave = request.wave
        return super().on_first_request(request)


class ExternalCoordinatorRewinds(Mutant):
    """See the module."""

    id = "external-coordinator-rewinds"
    family = "external coordinator"
    title = "a stale FirstRequest takes the external coordinator back"
    bug = "A superseded wave is broadcast to every engine of the deployment."
    source = (
        "https://github.com/vllm-project/vllm/pull/46833 (the same fault, in the other coordinator)"
    )
    killed_by = "wave.never-rewinds"
    needs = "frontend_starts_waves"
    hidden_because = (
        "our server owns its handshake, so that it never follows an external coordinator; the "
        "coordinator that others are given is a process of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=RewindingProcess)
