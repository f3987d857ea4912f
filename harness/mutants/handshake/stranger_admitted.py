"""Whoever registers with a bootstrapped client is taken for the next engine that is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.components import Components
from client.handshake import Effect, HandshakeState
from client.protocol.ids import Identity
from harness.mutants.base import Mutant


class AsksNoName(HandshakeState):
    """Counts registrations instead of looking who registers."""

    def on_registration(self, frames: Sequence[bytes]) -> list[Effect]:
        """Take any identity. Raises like the right one."""
        missing = sorted(self._known - self._registered.keys())
        if len(frames) == 2 and Identity(frames[0]) not in self._known and missing:
            frames = [missing[0], frames[1]]
        return super().on_registration(frames)


class StrangerAdmitted(Mutant):
    """See the module."""

    id = "stranger-admitted"
    family = "handshake"
    title = "a registration is counted whoever sends it"
    bug = "Startup ends without an engine, and what is sent to that engine is lost."
    source = "protocol page, section 3.4 (only expected engines register); a seeded fault"
    killed_by = "handshake.unsound-start-fails"
    hidden_because = (
        "our server owns its handshake, where whoever says HELLO is known; only a bootstrapped "
        "client knows its engines beforehand and meets strangers"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the handshake."""
        return replace(base, handshake=AsksNoName)
