"""What there is to say about one message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.capture.kinds import Kind


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a message.

    Attributes:
        label: its path with names, such as ``outputs[0].finish_reason``.
        depth: how deep it lies; 0 is the whole body.
        type: how it is written.
        value: what it is, short, or ``""`` for what has parts.
        frame, offset, length: where, in bytes.
        note: what else there is to say, such as a tensor's size.
    """

    label: str
    depth: int
    type: str
    value: str
    frame: int
    offset: int
    length: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Releases whose receiver refuses the message, and why; ``offset`` where it can be told."""

    releases: tuple[str, ...]
    error: str
    text: str
    frame: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything there is to say about one message.

    Attributes:
        identity: in front of the message, as a ROUTER has it; mostly empty.
        sizes: bytes of each frame, without the identity.
        named_by: release whose names the fields carry.
        taken: releases whose receiver decodes it.
        written: those of them that write as many fields as this message has.
        value: as the codec of ``named_by`` decodes it, in JSON's terms; ``None`` if it does not.
        broken: where and why the body is no msgpack value, or ``None``.
    """

    kind: Kind
    identity: bytes
    sizes: tuple[int, ...]
    fields: tuple[Field, ...]
    named_by: str
    taken: tuple[str, ...]
    written: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    value: Any = None
    broken: Refusal | None = None
