"""A repetition is read as a stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from client.components import Components
from client.protocol.codec import Codec
from client.protocol.messages import FinishReason, OutputKind, RequestBatch
from harness.mutants.base import Mutant


class FourReasons(Codec):
    """Knows the finish reasons of the past."""

    def classify(self, frames: Sequence[bytes]) -> OutputKind:
        """Decode one output message. Raises like the right one."""
        kind = super().classify(frames)
        if not isinstance(kind, RequestBatch):
            return kind
        outputs = tuple(
            msgspec.structs.replace(each, finish_reason=FinishReason.STOP)
            if each.finish_reason is FinishReason.REPETITION
            else each
            for each in kind.outputs
        )
        return msgspec.structs.replace(kind, outputs=outputs)


class RepetitionShownAsStop(Mutant):
    """See the module."""

    id = "repetition-shown-as-stop"
    family = "codec"
    title = "a repetition is shown as a stop"
    bug = "An answer that was cut off looks whole."
    source = "released Rust frontends up to 0.24 (observed)"
    killed_by = "answer.finish-is-the-engines"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the codec."""
        return replace(base, codec=FourReasons)
