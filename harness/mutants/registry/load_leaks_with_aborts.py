"""A registry that does not count a request down when its caller left."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.output_stream import OutputChannel
from client.requests import Registration, RequestRegistry
from harness.mutants.base import Mutant


class CountsEndsOnly(RequestRegistry[OutputChannel]):
    """Lowers the load where an engine said the end, and nowhere else."""

    def release(
        self, registration: Registration[OutputChannel], *, departing: bool = False
    ) -> bool:
        """Take a request out; one that is aborted stays in the count of its engine."""
        released = super().release(registration, departing=departing)
        if released and departing:
            self._counts[registration.engine] += 1
        return released


class LoadLeaksWithAborts(Mutant):
    """See the module."""

    id = "load-leaks-with-aborts"
    family = "registry"
    title = "an aborted request stays in the load of its engine"
    bug = "The count drifts, until one rank gets every request."
    source = "https://github.com/vllm-project/vllm/pull/40279"
    killed_by = "routing.score-matches"
    hidden_because = (
        "the choice of an engine is compared with loads that only the client's own events show; "
        "outside any engine may be right"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry."""
        return replace(base, requests=CountsEndsOnly)
