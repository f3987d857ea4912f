"""A failure ends the requests of one engine only."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import ClientError
from client.output_stream import OutputChannel
from client.requests import Registration, RequestRegistry
from harness.mutants.base import Mutant


class OneEngineOnly(RequestRegistry[OutputChannel]):
    """Believes that the other engines are still heard."""

    def close(self, error: ClientError) -> list[Registration[OutputChannel]]:
        """Refuse everything; return the requests of the engine that has the oldest one."""
        drained = super().close(error)
        return [each for each in drained if each.engine == drained[0].engine]


class FailureEndsOneEngineOnly(Mutant):
    """See the module."""

    id = "failure-ends-one-engine-only"
    family = "health"
    title = "a failure ends the requests of one engine only"
    bug = "Requests at the others hang, since nobody reads their outputs any more."
    source = "https://github.com/vllm-project/vllm/issues/24897; protocol page, section 5.3"
    killed_by = "health.fails-all-open-work"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry."""
        return replace(base, requests=OneEngineOnly)
