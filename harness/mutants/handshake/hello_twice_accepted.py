"""A second HELLO of an engine is answered like the first."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.handshake import Effect, HandshakeState, SendInit
from client.protocol.ids import Identity
from harness.mutants.base import Mutant


class AnswersAgain(HandshakeState):
    """Does not ask who has said HELLO already."""

    def _on_hello(self, identity: Identity) -> list[Effect]:
        if identity in self._known:
            return [SendInit(identity)]
        return super()._on_hello(identity)


class HelloTwiceAccepted(Mutant):
    """See the module."""

    id = "hello-twice-accepted"
    family = "handshake"
    title = "a second HELLO of one rank is answered"
    bug = "Two engines with one rank both start, and answers of one reach callers of the other."
    source = "vllm#21538 (startup hardening); protocol page, section 3.1"
    killed_by = "handshake.unsound-start-fails"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the handshake."""
        return replace(base, handshake=AnswersAgain)
