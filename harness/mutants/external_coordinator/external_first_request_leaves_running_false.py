"""The external coordinator wakes the engines and goes on believing them paused."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import FirstRequest
from client.external_coordinator import Broadcast, Effect, ExternalCoordinatorState
from harness.mutants.base import Mutant


class WakesOnly(ExternalCoordinatorState):
    """Does what 0.29 does, in a release whose engines send no proof that they run."""

    def on_first_request(self, request: FirstRequest) -> list[Effect]:
        """Broadcast; keep the flag, publish nothing."""
        effects = super().on_first_request(request)
        self.engines_running = False
        return [effect for effect in effects if isinstance(effect, Broadcast)]


class ExternalFirstRequestLeavesRunningFalse(Mutant):
    """See the module."""

    id = "external-first-request-leaves-running-false"
    family = "external coordinator"
    title = "the external coordinator does not mark the engines as running"
    bug = "Each further frontend that has a first request starts the running wave again."
    source = "Python coordinator up to 0.28; protocol page, section 12"
    killed_by = "wave.first-request-marks-running"
    needs = "external_coordinator_marks_running"
    hidden_because = (
        "our server owns its handshake, so that it never follows an external coordinator; the "
        "coordinator that others are given is a process of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=WakesOnly)
