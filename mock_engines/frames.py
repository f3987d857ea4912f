"""Frames as scripts write them: hexadecimal, or ``text:…``."""

from __future__ import annotations

from collections.abc import Sequence

TEXT_PREFIX = "text:"


def parse_frame(text: str) -> bytes:
    """Return the bytes of one frame.

    Raises:
        ValueError: neither hexadecimal nor marked as text.
    """
    if text.startswith(TEXT_PREFIX):
        return text[len(TEXT_PREFIX) :].encode()
    try:
        return bytes.fromhex(text)
    except ValueError:
        msg = f"frame {text!r} is neither hexadecimal nor of the form 'text:…'"
        raise ValueError(msg) from None


def parse_frames(texts: Sequence[str]) -> list[bytes]:
    """Return the bytes of each frame of one message. Raises ``ValueError``."""
    return [parse_frame(text) for text in texts]
