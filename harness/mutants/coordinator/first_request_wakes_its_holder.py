"""A first request that leaves nobody out."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState, FirstRequest
from harness.mutants.base import Mutant


class WakesAll(CoordinatorState):
    """Takes every first request for a stale one."""

    def exclude(self, request: FirstRequest) -> int | None:
        """Leave nobody out."""
        del request
        return None


class FirstRequestWakesItsHolder(Mutant):
    """See the module."""

    id = "first-request-wakes-its-holder"
    family = "coordinator"
    title = "a current FirstRequest leaves nobody out"
    bug = "The engine that has begun by itself is told once more to begin, perhaps behind its end."
    source = "https://github.com/vllm-project/vllm/pull/46833"
    killed_by = "wave.current-first-request-excludes-holder"
    needs = "frontend_starts_waves"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=WakesAll)
