"""A registry that lets a second request in under an id that is in flight."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.output_stream import OutputChannel
from client.protocol.ids import RequestId
from client.requests import RequestRegistry
from harness.mutants.base import Mutant


class LastOneWins(RequestRegistry[OutputChannel]):
    """Looks at ids that depart, not at those in flight."""

    def check_free(self, request_id: RequestId) -> None:
        """Refuse an id only while its ABORT is on the way. Raises as the right one does."""
        taken = self._in_flight.pop(request_id, None)
        try:
            super().check_free(request_id)
        finally:
            if taken is not None:
                self._in_flight[request_id] = taken


class DuplicateIdAdmitted(Mutant):
    """See the module."""

    id = "duplicate-id-admitted"
    family = "registry"
    title = "an id that is in flight is admitted again"
    bug = "Two requests of one id get each other's tokens, and one ABORT ends both."
    source = "https://github.com/vllm-project/vllm/issues/10583; protocol page, section 6.1"
    killed_by = "request.unique-in-flight-ids"
    hidden_because = (
        "a server gives each request an internal id of its own, so that no two of them are the same"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry."""
        return replace(base, requests=LastOneWins)
