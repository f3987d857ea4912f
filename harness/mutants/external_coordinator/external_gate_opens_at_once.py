"""The external coordinator answers the first engine that subscribes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.components import Components
from client.external_coordinator import Effect, ExternalCoordinatorState
from client.protocol.messages import SUBSCRIBE_ALL
from harness.mutants.base import Mutant


class AnswersTheFirst(ExternalCoordinatorState):
    """Counts no engines."""

    def on_back_subscription(self, frames: Sequence[bytes]) -> list[Effect]:
        """Serve from the first subscription on. Raises ``CoordinatorDied``."""
        if list(frames) == [SUBSCRIBE_ALL]:
            self._awaited = 1
        return super().on_back_subscription(frames)


class ExternalGateOpensAtOnce(Mutant):
    """See the module."""

    id = "external-gate-opens-at-once"
    family = "external coordinator"
    title = "the external coordinator answers READY to the first subscriber"
    bug = "Engines that subscribe later miss the wake-ups that are sent by then."
    source = "protocol page, section 3.3; a seeded fault"
    killed_by = "handshake.gate-before-ready"
    hidden_because = (
        "our server owns its handshake, so that it never follows an external coordinator; the "
        "coordinator that others are given is a process of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=AnswersTheFirst)
