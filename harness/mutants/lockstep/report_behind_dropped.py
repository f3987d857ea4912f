"""The external coordinator drops the report of a rank that is behind the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from client.components import Components
from client.external_coordinator import Effect, ExternalCoordinatorState
from harness.mutants.base import Mutant


class OneStepForAll(ExternalCoordinatorState):
    """Takes a report of an earlier step than the latest of any rank for a stale one."""

    def _on_stats(self, engine: int, stats: Mapping[str, Any]) -> list[Effect]:
        if (stats["current_wave"], stats["step_counter"]) < self._step:
            return []
        return super()._on_stats(engine, stats)


class ReportBehindDropped(Mutant):
    """See the module."""

    id = "report-behind-dropped"
    family = "lockstep"
    title = "the report of a rank that is a step behind the others is dropped"
    bug = "The load of a slower rank is never the one that frontends see."
    source = (
        "https://github.com/vllm-project/vllm/pull/52936 (vLLM's coordinator warns of such reports "
        "as out of order, and takes them)"
    )
    killed_by = "lockstep.counts-converge"
    hidden_because = "a coordinator that is a process of its own is no part of the frontend"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator."""
        return replace(base, external_coordinator=OneStepForAll)
