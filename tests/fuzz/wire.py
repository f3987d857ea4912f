"""A second reader of msgpack, which shares nothing with the codec's.

``read`` is quick: msgspec reads the body. ``read_slowly`` goes byte by byte, and knows the few rules
in which the codec's library differs; it decides where the quick one and the codec disagree.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.msgpack import Ext


class Malformed(Exception):  # noqa: N818
    """The bytes are no msgpack value."""


_SCALARS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {
    0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4), 0xC4: ("bin", 1), 0xC5: ("bin", 2),
    0xC6: ("bin", 4), 0xC7: ("ext", 1), 0xC8: ("ext", 2), 0xC9: ("ext", 4), 0xDC: ("array", 2),
    0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip
DEPTH_MAX = 200
"""Deeper bodies are called deep without being read to the end."""


class Reader:
    """Reads one value; ``at`` is where it ended, ``depth`` how deep it nests."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0
        self.depth = 0

    def value(self, depth: int = 0) -> Any:
        """Read the next value. Raises ``Malformed``."""
        if depth > DEPTH_MAX:
            self.depth = depth
            raise Malformed("deep")
        body, at = self.body, self.at
        if at >= len(body):
            raise Malformed("ended")
        head = body[at]
        self.at = at + 1
        if head <= 0x7F:
            return head
        if head >= 0xE0:
            return head - 256
        if head >= 0xC0:
            return self._long(head, depth)
        if head >= 0xA0:
            return self._str(head & 31)
        if head >= 0x90:
            return self._array(head & 15, depth)
        return self._map(head & 15, depth)

    def _long(self, head: int, depth: int) -> Any:
        if head in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[head]
        if head in _SCALARS:
            form = _SCALARS[head]
            return struct.unpack(form, self._take(struct.calcsize(form)))[0]
        if 0xD4 <= head <= 0xD8:
            return self._ext(1 << (head - 0xD4))
        if head not in _LENGTHS:
            raise Malformed(f"byte {head:02x}")
        kind, size = _LENGTHS[head]
        length = int.from_bytes(self._take(size), "big")
        if kind == "array":
            return self._array(length, depth)
        if kind == "map":
            return self._map(length, depth)
        return {"str": self._str, "bin": self._take, "ext": self._ext}[kind](length)

    def _take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self.body):
            raise Malformed("ended")
        return self.body[start : self.at]

    def _str(self, size: int) -> str:
        try:
            return self._take(size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Malformed("text") from error

    def _ext(self, size: int) -> Ext:
        code = int.from_bytes(self._take(1), "big", signed=True)
        data = self._take(size)
        if code < -1:
            raise Malformed("ext code")  # the library's rule: protocol page, section 4
        if code == -1 and not _is_timestamp(data):
            raise Malformed("timestamp")
        return Ext(code, data)

    def _array(self, length: int, depth: int) -> list[Any]:
        self.depth = max(self.depth, depth + 1)
        if length > len(self.body):
            raise Malformed("ended")
        return [self.value(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[Any, Any]:
        self.depth = max(self.depth, depth + 1)
        if length > len(self.body):
            raise Malformed("ended")
        found: dict[Any, Any] = {}
        for _ in range(length):
            key = self.value(depth + 1)
            if isinstance(key, (list, dict)):
                raise Malformed("key")
            name = _Key(key) if isinstance(key, Ext) else key
            if name in found:
                raise Malformed("key twice")
            found[name] = self.value(depth + 1)
        return found


def _is_timestamp(data: bytes) -> bool:
    if len(data) == 4:
        return True
    if len(data) == 8:
        return int.from_bytes(data, "big") >> 34 < 10**9
    return len(data) == 12 and int.from_bytes(data[:4], "big") < 10**9


@dataclass(frozen=True, slots=True)
class Read:
    """A body as the second reader saw it."""

    value: Any
    depth: int
    rest: int
    why: str = ""


def read_slowly(body: bytes) -> Read:
    """Read a body byte by byte; ``why`` is set if it is no value."""
    reader = Reader(body)
    try:
        value = reader.value()
    except Malformed as error:
        return Read(None, reader.depth, 0, str(error))
    return Read(value, reader.depth, len(body) - reader.at)


_DECODER = msgspec.msgpack.Decoder()


def read(body: bytes) -> Read:
    """Read a body, quickly if it is nothing but one value."""
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError, OverflowError):
        return read_slowly(body)
    return Read(value, _depth(value) if len(body) > DEEP_BYTES else 0, 0)


DEEP_BYTES = 128
"""Shorter bodies cannot nest so deep that it matters."""


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if type(item) in (list, dict) and item]:
        depth += 1
        level = [
            child for item in level for child in (item.values() if type(item) is dict else item)
        ]
    return depth


class _Key:
    """Stands for an extension value as a key."""

    def __init__(self, ext: Ext) -> None:
        self._what = (ext.code, ext.data)

    def __hash__(self) -> int:
        return hash(self._what)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._what == self._what
