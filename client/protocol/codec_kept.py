"""Bodies that were decoded before: in a campaign the same bytes come thousands of times.

What a decoder returns depends on the bytes and the release alone, so that it may be kept, as long
as nobody can change it: a message is kept if it can be hashed, which one with a list or a map in it
cannot. Maps that startup reads are never changed by anybody, and are kept too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from client.protocol.profiles import Profile

KEPT_MAX = 512
"""Messages that are kept for each release; then all are forgotten."""
KEPT_BYTES = 1 << 20
"""Bytes of such messages, as on the wire, likewise."""
SHORT_BYTES = 1 << 12
"""A longer body of the handshake is not kept: what is kept of it has no other bound."""
LONG_BYTES = 1 << 16
"""A message with a longer frame is not kept: few of them would fit."""

T = TypeVar("T")


class Table(Generic[T]):
    """What came of bodies, by what stands for them."""

    def __init__(self) -> None:
        self._messages: dict[Any, T] = {}
        self._bytes = 0
        self.get = self._messages.get

    def keep(self, key: Any, message: T, size: int = 0) -> None:
        """Add a message that had ``size`` bytes; the table stays bounded."""
        if size > KEPT_BYTES:
            return
        self._bytes += size
        if len(self._messages) >= KEPT_MAX or self._bytes > KEPT_BYTES:
            self._messages.clear()
            self._bytes = size
        self._messages[key] = message


class Kept(Generic[T]):
    """Tables by the identity of the profile: to hash one costs more than to decode."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[Profile, Table[T]]] = {}

    def table(self, profile: Profile) -> Table[T]:
        """What is kept for a release."""
        found = self._tables.get(id(profile))
        if found is None:
            if len(self._tables) >= KEPT_MAX:
                self._tables.clear()
            found = self._tables[id(profile)] = (profile, Table())
        return found[1]


def key_of(frames: Sequence[bytes]) -> tuple[bytes, ...] | None:
    """What stands for short frames of plain bytes; ``None``: they are not to be kept."""
    for frame in frames:
        if type(frame) is not bytes or len(frame) > LONG_BYTES:
            return None
    return tuple(frames)


def is_fixed(message: object) -> bool:
    """Whether nothing in a message can be changed."""
    try:
        hash(message)
    except TypeError:
        return False
    return True
