"""Startup is over when one engine is still missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.components import Components
from client.handshake import HandshakeState
from client.protocol.codec import Codec
from client.protocol.ids import Identity
from client.protocol.profiles import Profile
from harness.mutants.base import Mutant


class GoesAhead(HandshakeState):
    """Does not wait for the last of several engines."""

    def __init__(
        self,
        codec: Codec,
        profile: Profile,
        *,
        engine_count: int = 0,
        expected: Sequence[Identity] | None = None,
        coordinator: bool = False,
    ) -> None:
        """Begin with one engine less."""
        super().__init__(
            codec,
            profile,
            engine_count=max(1, engine_count - 1),
            expected=expected,
            coordinator=coordinator,
        )


class StartupEndsOneEngineShort(Mutant):
    """See the module."""

    id = "startup-ends-one-engine-short"
    family = "handshake"
    title = "startup does not wait for the last engine"
    bug = "Serving begins without a rank, and its peers wait for it in their first collective."
    source = "vllm#44610, vllm#27444 (waiting for engines that are slow to come)"
    killed_by = "handshake.unsound-start-fails"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the handshake."""
        return replace(base, handshake=GoesAhead)
