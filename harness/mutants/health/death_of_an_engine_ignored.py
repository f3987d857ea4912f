"""The last word of an engine is no reason to fail."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.inner import ClientInner
from client.protocol.messages import EngineDead, OutputKind
from harness.mutants.base import Mutant


class GoesOn(ClientInner):
    """There are other engines."""

    def dispatch(self, kind: OutputKind) -> None:
        """Act on one message, unless it is an engine's last."""
        if not isinstance(kind, EngineDead):
            super().dispatch(kind)


class DeathOfAnEngineIgnored(Mutant):
    """See the module."""

    id = "death-of-an-engine-ignored"
    family = "health"
    title = "the last word of an engine is ignored"
    bug = "Its callers wait for ever, and the frontend looks healthy."
    source = "https://github.com/vllm-project/vllm/issues/24897, #21728"
    killed_by = "request.accepted-ends"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=GoesOn)
