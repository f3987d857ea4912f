"""Shutdown is no failure, so nobody is told."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import ClientClosed, ClientError
from client.inner import ClientInner
from harness.mutants.base import Mutant


class PeacefulEnd(ClientInner):
    """Fails for errors only."""

    def fail(self, error: ClientError) -> None:
        """Fail closed, unless it is the end that was asked for."""
        if not isinstance(error, ClientClosed):
            super().fail(error)


class ShutdownTellsNoCaller(Mutant):
    """See the module."""

    id = "shutdown-tells-no-caller"
    family = "shutdown"
    title = "shutdown ends the client and no request"
    bug = "Callers in flight wait for ever for a client that is gone."
    source = "https://github.com/vllm-project/vllm/pull/45300; protocol page, section 16"
    killed_by = "lifecycle.shutdown-leaves-nothing"
    hidden_because = (
        "only the client itself can say what it still holds at its end; its process takes "
        "everything along"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=PeacefulEnd)
