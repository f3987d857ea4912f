"""The startup gate opens when one subscription is still missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.components import Components
from client.handshake import Effect, HandshakeState
from harness.mutants.base import Mutant


class OneShort(HandshakeState):
    """Counts from zero where it should from one."""

    def on_subscription(self, frames: Sequence[bytes]) -> list[Effect]:
        """Count one more than there was, once. Raises like the right one."""
        self._subscriptions = max(self._subscriptions, 1)
        return super().on_subscription(frames)


class GateOpensOneShort(Mutant):
    """See the module."""

    id = "gate-opens-one-short"
    family = "handshake"
    title = "the startup gate opens one subscription too early"
    bug = "The last engine misses a wake-up, and its peers wait for it for ever."
    source = "protocol page, section 3.2 (the gate counts messages); a seeded fault"
    killed_by = "handshake.gate-before-ready"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the handshake."""
        return replace(base, handshake=OneShort)
