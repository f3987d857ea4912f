"""Frames and messages for people: what was refused, in a line, however much of it there is."""

from __future__ import annotations

from collections.abc import Sequence

FRAMES_MAX = 4
BYTES_MAX = 32
NAME_CHARS_MAX = 64
"""Longest name in a line of many; ids of requests with a random part are shorter."""
QUOTED_CHARS_MAX = 1_000
"""Longest quotation of a whole message, or of the values of all engines, in an error."""


def shown_frames(frames: Sequence[bytes]) -> str:
    """Return frames in hexadecimal, e.g. ``[01, 4865…(70,000 bytes)]``."""
    parts = [_shown(frame) for frame in frames[:FRAMES_MAX]]
    if len(frames) > FRAMES_MAX:
        parts.append(f"and {len(frames) - FRAMES_MAX:,} more")
    return f"[{', '.join(parts)}]"


def quoted(value: object) -> str:
    """Return how Python prints a value, cut: an error is kept, told, and sent to every caller."""
    return cut(repr(value))


def name_shown(text: str) -> str:
    """Return a name as one word: quoted if it is none, and without its middle if it is long.

    Ids and methods come from the wire, where they may be of any length and hold line feeds, signs
    that steer a terminal, and spaces that pad a column.
    """
    if len(text) > NAME_CHARS_MAX:
        half = NAME_CHARS_MAX // 2
        text = f"{text[:half]}…{text[-half:]}"
    plain = text.isprintable() and " " not in text and text
    return text if plain else repr(text)


def cut(text: str) -> str:
    """Return the beginning of a text, and how long it was if that is not all."""
    if len(text) <= QUOTED_CHARS_MAX:
        return text
    return f"{text[:QUOTED_CHARS_MAX]}… ({len(text):,} characters)"


def _shown(frame: bytes) -> str:
    if len(frame) <= BYTES_MAX:
        return frame.hex() or "empty"
    return f"{frame[:BYTES_MAX].hex()}…({len(frame):,} bytes)"
