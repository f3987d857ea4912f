"""The rank that a caller asked for, as its surface reads it. Not an invariant.

The rules are those of the protocol page, section 7.3, written down a second time on purpose:
a checker that shared the client's parser would share its faults.
"""

from __future__ import annotations

import re

import msgspec

from client.protocol.ids import U32_MAX
from harness.trace.events import CallStarted

_U32 = re.compile(r"\+?[0-9]+", re.ASCII)
HTTP_SURFACES = frozenset(
    {
        *("http", "http-stream", "chat", "chat-stream", "chat-batch"),
        *("responses", "responses-stream", "messages", "messages-stream"),
        *("generate", "generate-stream"),
    }
)
REFUSED_RANK = "InvalidDataParallelRank"


class Asked(msgspec.Struct, frozen=True):
    """What a call asks for.

    Attributes:
        rank: the rank to which it must go; ``None`` = any.
        refused: the text is no rank where the surface demands one: no ADD at all.
    """

    rank: int | None = None
    refused: bool = False


ANY = Asked()


def asked(call: CallStarted) -> Asked:
    """Read rank or rank text. HTTP ignores what is no u32, other surfaces refuse it."""
    if not call.rank_text:
        return Asked(call.explicit_rank)
    rank = _u32(call.rank_text[0])  # of repeated keys the first wins
    if rank is not None:
        return Asked(rank)
    return ANY if call.surface in HTTP_SURFACES else Asked(refused=True)


def _u32(text: str) -> int | None:
    trimmed = text.strip(" \t")
    if _U32.fullmatch(trimmed) is None:
        return None
    value = int(trimmed)
    return value if value <= U32_MAX else None
