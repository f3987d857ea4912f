"""A ready response is read although a key is missing that the release needs."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.protocol.codec import Codec
from client.protocol.codec_startup import decode_ready_response
from client.protocol.messages import ReadyResponse
from harness.mutants.base import Mutant


class AsksForNothing(Codec):
    """Needs no key of a ready response."""

    def decode_ready_response(self, body: bytes) -> ReadyResponse:
        """Decode a registration, whatever it lacks. Raises like the right one for the rest."""
        return decode_ready_response(replace(self.profile, ready_required=frozenset()), body)


class MissingKeyPassedOver(Mutant):
    """See the module."""

    id = "missing-key-passed-over"
    family = "codec"
    title = "a ready response without a key that is needed is accepted"
    bug = "A limit that the engine did not tell is guessed, and requests beyond it are admitted."
    source = "vllm#45557 (the ready response drifted between the two sides)"
    killed_by = "handshake.unsound-start-fails"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the codec."""
        return replace(base, codec=AsksForNothing)
