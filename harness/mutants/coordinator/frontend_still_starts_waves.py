"""The frontend goes on starting waves after the engines have learnt to."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import CoordinatorState
from harness.mutants.base import Mutant


class StillStarts(CoordinatorState):
    """The division of labour of 0.32, in 0.33."""

    def __init__(self, *, frontend_starts_waves: bool) -> None:
        super().__init__(frontend_starts_waves=True)
        del frontend_starts_waves


class FrontendStillStartsWaves(Mutant):
    """See the module."""

    id = "frontend-still-starts-waves"
    family = "coordinator"
    title = "the frontend starts waves although engines do"
    bug = "A wake-up of its own may hit a group that is about to pause."
    source = (
        "vLLM release 0.33.0 (first requests are gone); "
        "https://github.com/vllm-project/vllm/issues/54762"
    )
    killed_by = "wave.only-engines-start"
    needs = "engine_starts_current_wave"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the coordinator's state."""
        return replace(base, coordinator=StillStarts)
