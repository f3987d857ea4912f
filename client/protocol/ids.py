"""Names for the numbers and strings of the protocol, and the rank ↔ identity mapping.

An engine's ZMQ identity is its global data-parallel rank as two little-endian bytes
(vLLM ``v1/engine/core.py``; Rust ``engine-core-client/src/transport.rs``, PR #51178 made the
mapping refuse what does not fit instead of truncating it).
"""

from __future__ import annotations

import functools
from typing import NewType

Rank = NewType("Rank", int)
"""Global data-parallel rank, 0…65,535. On the wire it is called ``engine_index``."""
Wave = NewType("Wave", int)
"""How many times all ranks together went from running to paused; u32 on the wire."""
CallId = NewType("CallId", int)
"""Number that pairs a utility reply with its call; 64 bits, negative ids are engine notices."""
RequestId = NewType("RequestId", str)
"""Internal request id, as it travels in ADD and ABORT."""
Identity = NewType("Identity", bytes)
"""ZMQ routing id of an engine."""

IDENTITY_BYTES = 2
RANKS_MAX = 1 << (8 * IDENTITY_BYTES)
"""Number of ranks that a two-byte identity can name (65,536)."""
U32_MAX = (1 << 32) - 1


@functools.lru_cache(maxsize=1024)
def identity_from_rank(rank: int) -> Identity:
    """Encode a rank as its identity.

    Raises:
        ValueError: the rank is negative or does not fit two bytes; it is never truncated.
    """
    if not 0 <= rank < RANKS_MAX:
        msg = f"rank {rank} exceeds the two-byte engine identity limit (0..{RANKS_MAX - 1})"
        raise ValueError(msg)
    return Identity(rank.to_bytes(IDENTITY_BYTES, "little"))


def rank_from_identity(identity: bytes) -> Rank | None:
    """Decode an identity; ``None`` when it is not exactly two bytes long."""
    if len(identity) != IDENTITY_BYTES:
        return None
    return Rank(int.from_bytes(identity, "little"))


STALE_PROBE_INDEX = 65_535
"""``engine_index`` of a start_wave that probes the coordinator.

It names a wave that its sender has reported complete before, on the same socket. A coordinator
that keeps its wave ignores it; one that passes it on (excluding this index) has gone back.
"""

ELASTIC_NOTICE_ID = CallId(-1)
"""Call id of what engines tell of an elastic change; it answers no call. Source: vLLM
``EEP_NOTIFICATION_CALL_ID``; protocol page, section 5.1."""
KEEPS_RANK, LEAVES_GROUP = -1, -2
"""In place of a new rank: the engine keeps its own, or is to end. Source: vLLM
``ReconfigureRankType``."""

FENCE_METHOD = "wavecheck_fence"
"""Utility method that mock engines answer at once, past every rule and without an event: a
reply proves that all that was sent before on the same sockets has arrived."""
