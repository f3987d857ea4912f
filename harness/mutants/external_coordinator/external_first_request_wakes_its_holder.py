"""The external coordinator leaves nobody out."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import FirstRequest
from client.external_coordinator import Broadcast, Effect, ExternalCoordinatorState
from client.protocol.messages import StartDpWave
from harness.mutants.base import Mutant


class WakesEverybody(ExternalCoordinatorState):
    """Takes every first request for a stale one."""

    def on_first_request(self, request: FirstRequest) -> list[Effect]:
        """Broadcast to all engines."""
        return [
            Broadcast(StartDpWave(each.message.wave, None)) if isinstance(each, Broadcast) else each
            for each in super().on_first_request(request)
        ]


class ExternalFirstRequestWakesItsHolder(Mutant):
    """See the module."""

    id = "external-first-request-wakes-its-holder"
    family = "external coordinator"
    title = "the external coordinator leaves nobody out of a current wave"
    bug = "The engine that has begun by itself is told once more to begin."
    source = "protocol page, section 12; https://github.com/vllm-project/vllm/pull/46833"
    killed_by = "wave.current-first-request-excludes-holder"
    needs = "frontend_starts_waves"
    hidden_because = (
        "our server owns its handshake, so that it never follows an external coordinator; the "
        "coordinator that others are given is a process of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=WakesEverybody)
