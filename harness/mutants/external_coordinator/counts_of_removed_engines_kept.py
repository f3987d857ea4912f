"""The external coordinator keeps the counts of engines that were removed."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.external_coordinator import Effect, ExternalCoordinatorState
from harness.mutants.base import Mutant


class NeverShrinks(ExternalCoordinatorState):
    """Grows when it is told to, and never cuts its list."""

    def on_scale(self, engine_count: int) -> list[Effect]:
        """Take a larger number over only."""
        return super().on_scale(max(engine_count, len(self.counts())))


class CountsOfRemovedEnginesKept(Mutant):
    """See the module."""

    id = "counts-of-removed-engines-kept"
    family = "external coordinator"
    title = "the external coordinator keeps counts of engines that were removed"
    bug = "Frontends are told of engines that are idle for ever, since they do not exist."
    source = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/engine/coordinator.py "
        "(SCALE_ELASTIC_EP cuts the list)"
    )
    killed_by = "elastic.coordinator-follows"
    hidden_because = (
        "the coordinator that others are given is a process of its own, and no frontend in a "
        "process of its own changes the number of its engines"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=NeverShrinks)
