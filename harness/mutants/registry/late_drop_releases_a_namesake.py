"""A registry that tells requests apart by their ids alone."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.output_stream import OutputChannel
from client.requests import Registration, RequestRegistry
from harness.mutants.base import Mutant


class ByName(RequestRegistry[OutputChannel]):
    """Knows no admissions, only names."""

    def release(
        self, registration: Registration[OutputChannel], *, departing: bool = False
    ) -> bool:
        """Take out whatever has this id now."""
        namesake = self.get(registration.request_id)
        return super().release(namesake or registration, departing=departing)


class LateDropReleasesANamesake(Mutant):
    """See the module."""

    id = "late-drop-releases-a-namesake"
    family = "registry"
    title = "the late drop of a stream releases the next request of its name"
    bug = "A request that is being served loses its registration, and its caller waits for ever."
    source = (
        "https://github.com/vllm-project/vllm/issues/27987 (recycled ids); protocol page, "
        "section 6.1"
    )
    killed_by = "request.accepted-ends"
    hidden_because = (
        "a server gives each request an internal id of its own, so that none has a namesake"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry."""
        return replace(base, requests=ByName)
