"""Of several tokens in one output the last is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from client.components import Components
from client.protocol.codec import Codec
from client.protocol.messages import OutputKind, RequestBatch
from harness.mutants.base import Mutant


class OneToken(Codec):
    """One step, one token."""

    def classify(self, frames: Sequence[bytes]) -> OutputKind:
        """Decode one output message. Raises like the right one."""
        kind = super().classify(frames)
        if not isinstance(kind, RequestBatch):
            return kind
        outputs = tuple(
            msgspec.structs.replace(each, new_token_ids=tuple(each.new_token_ids)[-1:])
            for each in kind.outputs
        )
        return msgspec.structs.replace(kind, outputs=outputs)


class OneTokenOfEachOutput(Mutant):
    """See the module."""

    id = "one-token-of-each-output"
    family = "codec"
    title = "an output with several tokens loses all but one"
    bug = "With speculative decoding the answer has holes."
    source = "protocol page, section 5.4 (rows carry several tokens); a seeded fault"
    killed_by = "request.outputs-own-only"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the codec."""
        return replace(base, codec=OneToken)
