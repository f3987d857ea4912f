"""Startup is over when one engine is still missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from client.components import Components
from client.handshake import HandshakeState
from harness.mutants.base import Mutant


class GoesAhead(HandshakeState):
    """Does not wait for the last of several engines."""

    def __init__(self, *args: Any, engine_count: int = 0, **others: Any) -> None:
        """Begin with one engine less."""
        super().__init__(*args, engine_count=max(1, engine_count - 1), **others)


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
