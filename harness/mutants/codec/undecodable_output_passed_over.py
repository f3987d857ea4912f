"""A message that cannot be decoded is passed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.components import Components
from client.protocol.codec import Codec
from client.protocol.codec_errors import DecodeError
from client.protocol.messages import OutputKind, RequestBatch
from harness.mutants.base import Mutant


class PassesOver(Codec):
    """One bad message must not harm the others."""

    def classify(self, frames: Sequence[bytes]) -> OutputKind:
        """Decode one output message; an empty batch stands for one that cannot be."""
        try:
            return super().classify(frames)
        except DecodeError:
            return RequestBatch(0, (), None, None)


class UndecodableOutputPassedOver(Mutant):
    """See the module."""

    id = "undecodable-output-passed-over"
    family = "codec"
    title = "a message that cannot be decoded is passed over"
    bug = "What it said is lost without a word, and whoever waits for it waits for ever."
    source = "smg#2175 (drift of a client written anew)"
    killed_by = "request.accepted-ends"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the codec."""
        return replace(base, codec=PassesOver)
