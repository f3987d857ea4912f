"""How the rank that a caller asks for is read from gRPC metadata and from an HTTP header.

Both follow Rust's ``str::parse::<u32>``: decimal digits, one leading ``+`` allowed, no
underscores, at most 2^32 - 1. What they do with anything else differs.

Source: Rust ``server/src/grpc/inference.rs`` (PR #51178); protocol page, section 7.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from client.errors import InvalidRankMetadata
from client.protocol.ids import U32_MAX

RANK_METADATA_KEY = "x-data-parallel-rank"
RANK_METADATA_TEXT = f"{RANK_METADATA_KEY} metadata must be an unsigned 32-bit integer"
"""Text of the INVALID_ARGUMENT status."""

_U32 = re.compile(r"\+?[0-9]+", re.ASCII)
_VISIBLE = re.compile(r"[\x20-\x7e\t]*")

RawValue = str | bytes | Sequence[str | bytes] | None
"""One value, several of one key in order of arrival (the first wins), or ``None``: absent."""


def parse_u32(text: str) -> int | None:
    """Parse as Rust parses a u32; ``None`` if it does not."""
    if _U32.fullmatch(text) is None:
        return None
    value = int(text)
    return value if value <= U32_MAX else None


def _first(raw: RawValue) -> str | None:
    """Return the first value as text; what is not visible ASCII becomes unparsable."""
    if raw is not None and not isinstance(raw, str | bytes):
        raw = raw[0] if raw else None
    if raw is None:
        return None
    text = raw.decode("latin-1") if isinstance(raw, bytes) else raw
    return text.strip() if _VISIBLE.fullmatch(text) else ""


def parse_rank_metadata(raw: RawValue) -> int | None:
    """Read ``x-data-parallel-rank`` of a gRPC call; ``None`` means load balancing.

    Raises:
        InvalidRankMetadata: a value is there, but it is no unsigned 32-bit integer.
    """
    text = _first(raw)
    if text is None:
        return None
    rank = parse_u32(text)
    if rank is None:
        raise InvalidRankMetadata(RANK_METADATA_TEXT)
    return rank


def parse_rank_header(raw: RawValue) -> int | None:
    """Read the HTTP header of the same name. What does not parse is ignored, as upstream."""
    text = _first(raw)
    return None if text is None else parse_u32(text)


class RankTexts:
    """Both readings, as one part that a server is built with."""

    def header(self, raw: RawValue) -> int | None:
        """See ``parse_rank_header``."""
        return parse_rank_header(raw)

    def metadata(self, raw: RawValue) -> int | None:
        """See ``parse_rank_metadata``."""
        return parse_rank_metadata(raw)
