"""Half of a fix: the wave does not go back, but the target of a stale request is left out."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState, FirstRequest
from harness.mutants.base import Mutant


class AlwaysExcludes(CoordinatorState):
    """Takes every first request for a current one."""

    def exclude(self, request: FirstRequest) -> int | None:
        """Leave the target out, although a stale request did not start the current wave there."""
        return request.target


class StaleFirstRequestLeavesOutTarget(Mutant):
    """See the module."""

    id = "stale-first-request-leaves-out-target"
    family = "coordinator"
    title = "a stale FirstRequest leaves out its target"
    bug = "The engine that has the request sleeps through the wave that was started for it."
    source = "https://github.com/vllm-project/vllm/pull/46833"
    killed_by = "wave.stale-first-request-wakes-all"
    needs = "frontend_starts_waves"
    hidden_because = (
        "a frontend reads its wave once for the ADD and again for the coordinator, and a wave that "
        "ends in between leaves the same messages behind"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=AlwaysExcludes)
