"""The external coordinator does not hear of new engines."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.external_coordinator import Effect, ExternalCoordinatorState
from harness.mutants.base import Mutant


class NeverGrows(ExternalCoordinatorState):
    """Cuts its list when it is told to, and never makes room."""

    def on_scale(self, engine_count: int) -> list[Effect]:
        """Take a smaller number over only."""
        return super().on_scale(min(engine_count, len(self.counts())))


class NewEnginesNotCounted(Mutant):
    """See the module."""

    id = "new-engines-not-counted"
    family = "external coordinator"
    title = "the external coordinator makes no room for new engines"
    bug = (
        "Reports of new engines are dropped as those of strangers, so that they look idle for ever."
    )
    source = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/engine/coordinator.py "
        "(reports of an engine beyond the list are passed over)"
    )
    killed_by = "elastic.coordinator-follows"
    hidden_because = (
        "the coordinator that others are given is a process of its own, and no frontend in a "
        "process of its own changes the number of its engines"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=NeverGrows)
