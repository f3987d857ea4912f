"""Frames as scripts write them: hexadecimal, ``text:…``, or ``json:…`` for a msgpack value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from client.protocol.codec_errors import EncodeError
from client.protocol.codec_msgpack import BodyPacker
from client.protocol.strict_json import loads

TEXT_PREFIX = "text:"
JSON_PREFIX = "json:"
NAME_MARK = "@"
"""A string of a ``json:`` frame that begins so names a request: its id on the wire is sent."""
Names = Callable[[str], str]


def parse_frame(text: str, names: Names = str) -> bytes:
    """Return the bytes of one frame.

    Args:
        text: as a script has it.
        names: gives the id on the wire of a request that a ``json:`` frame names.

    Raises:
        ValueError: none of the forms, or no JSON, or a value that msgpack has not.
    """
    if text.startswith(TEXT_PREFIX):
        return text[len(TEXT_PREFIX) :].encode()
    if text.startswith(JSON_PREFIX):
        return _packed(text, names)
    try:
        return bytes.fromhex(text)
    except ValueError:
        msg = f"frame {text!r} is neither hexadecimal nor of the form 'text:…' or 'json:…'"
        raise ValueError(msg) from None


def parse_frames(texts: Sequence[str], names: Names = str) -> list[bytes]:
    """Return the bytes of each frame of one message. Raises ``ValueError``."""
    return [parse_frame(text, names) for text in texts]


def _packed(text: str, names: Names) -> bytes:
    try:
        value = _named(loads(text[len(JSON_PREFIX) :]), names)
        return BodyPacker(inline_below=None).pack(value, "frame")
    except (ValueError, EncodeError) as error:
        msg = f"frame {text!r} has no msgpack form: {error}"
        raise ValueError(msg) from error


def _named(value: Any, names: Names) -> Any:
    if isinstance(value, str) and value.startswith(NAME_MARK):
        return names(value.removeprefix(NAME_MARK))
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _named(item, names) for key, item in value.items()}
    return value
