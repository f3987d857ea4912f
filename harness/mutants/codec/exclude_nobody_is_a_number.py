"""Nobody to leave out is written as a number."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from client.components import Components
from client.protocol.codec import Codec
from client.protocol.ids import U32_MAX
from client.protocol.messages import StartDpWave
from harness.mutants.base import Mutant


class NoNilOnTheWire(Codec):
    """Has no nil in its integers."""

    def encode_start_wave(self, message: StartDpWave) -> list[bytes]:
        """Encode START_DP_WAVE; 4,294,967,295 stands for nobody."""
        if message.exclude_engine_index is None:
            message = msgspec.structs.replace(message, exclude_engine_index=U32_MAX)
        return super().encode_start_wave(message)


class ExcludeNobodyIsANumber(Mutant):
    """See the module."""

    id = "exclude-nobody-is-a-number"
    family = "codec"
    title = "a broadcast to all names an engine that does not exist"
    bug = "Readers that look for nil take the broadcast for one that leaves somebody out."
    source = "smg#2175 (drift of a client written anew)"
    killed_by = "wave.engine-start-rebroadcast-once"
    needs = "frontend_starts_waves"
    hidden_because = (
        "outside a broadcast that names an engine which is not there looks like the answer to a "
        "start_wave of that index"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the codec."""
        return replace(base, codec=NoNilOnTheWire)
