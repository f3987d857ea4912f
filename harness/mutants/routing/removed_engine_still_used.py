"""Requests still go to an engine that leaves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from client.components import Components
from client.protocol.ids import Identity
from client.routing import Routing
from harness.mutants.base import Mutant
from harness.mutants.scaling import HIDDEN


class ForgetsNobody(Routing):
    """Adds engines, and takes none out."""

    def use(self, engines: Iterable[Identity]) -> None:
        """Choose among these, too."""
        super().use({*self._engines, *engines})


class RemovedEngineStillUsed(Mutant):
    """See the module."""

    id = "removed-engine-still-used"
    family = "routing"
    title = "requests still go to an engine that was removed"
    bug = "A request is queued at an engine that is about to end, or sent to one that is gone."
    source = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/engine/core_client.py (the list "
        "is cut before anything else)"
    )
    killed_by = "routing.unconnected-rank-refused"
    hidden_because = HIDDEN

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the routing."""
        return replace(base, routing=ForgetsNobody)
