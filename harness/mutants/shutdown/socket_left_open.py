"""Shutdown leaves the oldest socket open."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.inner import ClientInner
from harness.mutants.base import Mutant


class KeepsOne(ClientInner):
    """Stops one short."""

    def close_sockets(self) -> None:
        """Close every socket but the first."""
        while len(self.sockets) > 1:
            self.sockets.pop().close()


class SocketLeftOpen(Mutant):
    """See the module."""

    id = "socket-left-open"
    family = "shutdown"
    title = "shutdown leaves a socket open"
    bug = "The next client cannot bind its address."
    source = "protocol page, section 16; a seeded fault"
    killed_by = "lifecycle.shutdown-leaves-nothing"
    hidden_because = (
        "only the client itself can say what it still holds at its end; its process takes "
        "everything along"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=KeepsOne)
