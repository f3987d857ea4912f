"""The external coordinator leaves out the target of a stale first request."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from client.components import Components
from client.coordinator import FirstRequest
from client.external_coordinator import Effect, ExternalCoordinatorState
from harness.mutants.base import Mutant


class LeavesOutAnyTarget(ExternalCoordinatorState):
    """Takes every first request for a current one."""

    def on_first_request(self, request: FirstRequest) -> list[Effect]:
        """Act as if the request were of the current wave."""
        return super().on_first_request(
            msgspec.structs.replace(request, wave=max(request.wave, self.current_wave))
        )


class ExternalStaleRequestLeavesOutTarget(Mutant):
    """See the module."""

    id = "external-stale-request-leaves-out-target"
    family = "external coordinator"
    title = "the external coordinator leaves out the target of a stale FirstRequest"
    bug = "The engine that has the request sleeps through the wave that was started for it."
    source = "https://github.com/vllm-project/vllm/pull/46833"
    killed_by = "wave.stale-first-request-wakes-all"
    needs = "frontend_starts_waves"
    hidden_because = (
        "our server owns its handshake, so that it never follows an external coordinator; the "
        "coordinator that others are given is a process of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=LeavesOutAnyTarget)
