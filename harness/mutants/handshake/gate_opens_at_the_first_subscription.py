"""The startup gate opens at the first subscription."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.components import Components
from client.handshake import Effect, HandshakeState, OpenGate, Stage
from harness.mutants.base import Mutant


class OpensAtOnce(HandshakeState):
    """Takes the first subscription for all of them."""

    def on_subscription(self, frames: Sequence[bytes]) -> list[Effect]:
        """Open the gate. Raises like the right one."""
        super().on_subscription(frames)
        self.stage = Stage.READY
        return [OpenGate()]


class GateOpensAtTheFirstSubscription(Mutant):
    """See the module."""

    id = "gate-opens-at-the-first-subscription"
    family = "handshake"
    title = "the startup gate opens at the first subscription"
    bug = "An engine that subscribes later misses a wake-up, and its peers wait for it for ever."
    source = "protocol page, section 3.2 (the gate); a seeded fault"
    killed_by = "handshake.gate-before-ready"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the handshake."""
        return replace(base, handshake=OpensAtOnce)
