"""A client that was shut down takes requests in."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import ClientError
from client.output_stream import OutputChannel
from client.requests import Registration, RequestRegistry
from harness.mutants.base import Mutant


class StaysOpen(RequestRegistry[OutputChannel]):
    """Is emptied by its end, and not locked."""

    def close(self, error: ClientError) -> list[Registration[OutputChannel]]:
        """Return what was in flight; go on admitting."""
        drained = super().close(error)
        self._closed_by = None
        return drained


class RequestAdmittedAfterTheEnd(Mutant):
    """See the module."""

    id = "request-admitted-after-the-end"
    family = "shutdown"
    title = "a request is admitted after shutdown"
    bug = "It is registered at a client that serves nobody, and counted where the operator looks."
    source = (
        "protocol page, section 16; https://github.com/vllm-project/vllm/pull/34730 (admission "
        "and drain)"
    )
    killed_by = "lifecycle.shutdown-leaves-nothing"
    hidden_because = (
        "only the client itself can say what it still holds at its end; its process takes "
        "everything along"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry."""
        return replace(base, requests=StaysOpen)
