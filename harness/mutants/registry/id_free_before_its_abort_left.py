"""A registry that frees an id before the ABORT of its request has left."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.output_stream import OutputChannel
from client.requests import Registration, RequestRegistry
from harness.mutants.base import Mutant


class FreeAtOnce(RequestRegistry[OutputChannel]):
    """Takes a request for gone once nobody reads it."""

    def release(
        self, registration: Registration[OutputChannel], *, departing: bool = False
    ) -> bool:
        """Take a request out and free its id."""
        del departing
        return super().release(registration)


class IdFreeBeforeItsAbortLeft(Mutant):
    """See the module."""

    id = "id-free-before-its-abort-left"
    family = "registry"
    title = "an id is free before its ABORT has left"
    bug = "The ABORT of an old request hits the new one of the same name."
    source = "https://github.com/vllm-project/vllm/issues/23697; protocol page, section 8"
    killed_by = "request.every-add-ends"
    hidden_because = (
        "a real socket takes a message at once, so that the send must be held from inside for "
        "the fault to matter, and a server gives each request an internal id of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry."""
        return replace(base, requests=FreeAtOnce)
