"""What each part of the system went through, in its own order, as one number.

Two runs with one history differ only in when things happened that do not meet.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from harness.trace.events import Record
from harness.trace.kinds import FIELDS_OF
from mock_engines import events as mock

REST = -1
"""Stands for everything that is no engine."""


def history_of(records: Iterable[Record]) -> int:
    """Combine the digests of all parts' own sequences of events; times and numbers are left out."""
    parts: dict[int, int] = {}
    for record in records:
        event = record.event
        cls = type(event)
        part = getattr(event, "engine", REST) if cls.__module__ == mock.__name__ else REST
        text = f"{cls.__name__}{[getattr(event, name) for name in FIELDS_OF[cls]]!r}"
        parts[part] = zlib.crc32(text.encode(), parts.get(part, 0))
    whole = ",".join(f"{part}:{parts[part]:08x}" for part in sorted(parts))
    return zlib.crc32(whole.encode()) << 32 | zlib.crc32(whole[::-1].encode())
