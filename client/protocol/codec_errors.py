"""Errors of the codec: what was refused, in which message and field, and why.

The texts begin like those of the Rust client, so that one expectation matches both.

Source: Rust ``engine-core-client/src/error.rs`` (Encode, Decode, ExtValueDecode).
"""

from __future__ import annotations


class CodecError(Exception):
    """Base of everything that the codec raises on purpose."""


class EncodeError(CodecError):
    """A message cannot be put on the wire for this release.

    Attributes:
        message_type: name of the message, as in ``client.protocol.messages``.
        reason: what is wrong with the value.
    """

    def __init__(self, message_type: str, reason: str) -> None:
        self.message_type = message_type
        self.reason = reason
        super().__init__(f"messagepack encode failed for {message_type}: {reason}")


class DecodeError(CodecError):
    """Bytes were refused.

    Attributes:
        message_type: name of the whole message, e.g. ``EngineCoreOutputs``.
        field: the struct and field at fault, e.g. ``EngineCoreOutput.finish_reason``; only the
            struct's name when it is the struct itself, e.g. its length.
        reason: what was expected and what was seen.
    """

    def __init__(self, message_type: str, field: str, reason: str) -> None:
        self.message_type = message_type
        self.field = field
        self.reason = reason
        super().__init__(self._text())

    def _text(self) -> str:
        return f"messagepack decode failed for {self.message_type}: {self.field}: {self.reason}"


class HandshakeStatusError(DecodeError):
    """A handshake body is a map, but its ``status`` is neither HELLO nor READY."""


class ExtValueDecodeError(DecodeError):
    """A tensor is wrong: its reference, its extension type, its dtype or its length."""

    def _text(self) -> str:
        # The Rust client names the field without its struct.
        name = self.field.partition(".")[2] or self.field
        return f"messagepack ext value decode failed: {name}: {self.reason}"
