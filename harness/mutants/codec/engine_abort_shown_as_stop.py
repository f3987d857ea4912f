"""An abort by the engine is read as a stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from client.components import Components
from client.protocol.codec import Codec
from client.protocol.messages import FinishReason, OutputKind, RequestBatch
from harness.mutants.base import Mutant


class AbortIsAnEnd(Codec):
    """Whatever ended has stopped."""

    def classify(self, frames: Sequence[bytes]) -> OutputKind:
        """Decode one output message. Raises like the right one."""
        kind = super().classify(frames)
        if not isinstance(kind, RequestBatch):
            return kind
        outputs = tuple(
            msgspec.structs.replace(each, finish_reason=FinishReason.STOP)
            if each.finish_reason is FinishReason.ABORT
            else each
            for each in kind.outputs
        )
        return msgspec.structs.replace(kind, outputs=outputs)


class EngineAbortShownAsStop(Mutant):
    """See the module."""

    id = "engine-abort-shown-as-stop"
    family = "codec"
    title = "a request that its engine aborted looks finished"
    bug = "Requests that a pause or a scale-down ended are taken for whole answers."
    source = "https://github.com/vllm-project/vllm/issues/57082, #47933"
    killed_by = "answer.finish-is-the-engines"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the codec."""
        return replace(base, codec=AbortIsAnEnd)
