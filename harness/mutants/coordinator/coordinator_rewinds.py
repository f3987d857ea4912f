"""The coordinator of releases up to 0.24: a first request sets the wave, even backwards."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState, FirstRequest
from client.protocol.messages import StartDpWave
from harness.mutants.base import Mutant


class RewindingState(CoordinatorState):
    """Believes whatever wave a first request carries."""

    def on_first_request(self, request: FirstRequest) -> StartDpWave:
        """Go to the request's wave and leave its target out; the running flag stays."""
        self.current_wave = request.wave
        return StartDpWave(request.wave, request.target)


class CoordinatorRewinds(Mutant):
    """See the module."""

    id = "coordinator-rewinds"
    family = "coordinator"
    title = "a stale FirstRequest takes the coordinator back to its wave"
    bug = "A superseded wave is broadcast, and engines that count waves apart wait for ever."
    source = "https://github.com/vllm-project/vllm/pull/46833"
    killed_by = "wave.never-rewinds"
    needs = "frontend_starts_waves"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=RewindingState)
