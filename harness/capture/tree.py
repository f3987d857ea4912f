"""A msgpack body as a tree that knows where in the frame each value stands.

The codec says what a value *is*; this says how it was *written* (float of 32 or 64 bits, string
or bytes, extension type) and at which offset. `msgpack` does the reading; its own result has
neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgpack

DEPTH_MAX = 200
"""Deepest nesting that is followed; no message of the protocol has more than ten levels."""

ARRAY, MAP, NIL, BOOL, INT, STR, BIN, EXT = (
    "array",
    "map",
    "nil",
    "bool",
    "int",
    "str",
    "bin",
    "ext",
)
FLOAT32, FLOAT64 = "float32", "float64"

# First byte of a value, upper bound inclusive. Source: the msgpack specification, "Formats".
_FIRST_BYTE: tuple[tuple[int, str], ...] = (
    (0x7F, INT),
    (0x8F, MAP),
    (0x9F, ARRAY),
    (0xBF, STR),
    (0xC0, NIL),
    (0xC1, ""),
    (0xC3, BOOL),
    (0xC6, BIN),
    (0xC9, EXT),
    (0xCA, FLOAT32),
    (0xCB, FLOAT64),
    (0xD3, INT),
    (0xD8, EXT),
    (0xDB, STR),
    (0xDD, ARRAY),
    (0xDF, MAP),
    (0xFF, INT),
)
# Where the type of an extension stands behind its first byte: fixed ones at once, others behind
# their length of 1, 2 or 4 bytes.
_EXT_CODE_AT = {0xC7: 2, 0xC8: 3, 0xC9: 5}


class TreeError(ValueError):
    """A frame is not one msgpack value.

    Attributes:
        offset: where, in bytes from the start of the frame.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


@dataclass(slots=True)
class Node:
    """One value.

    Attributes:
        kind: one of the names above.
        start: offset of its first byte in the frame.
        end: offset behind its last byte.
        value: a scalar's value; the bytes of an extension; ``None`` for array and map.
        code: type of an extension.
        items: elements of an array; values of a map.
        keys: keys of a map, beside ``items``.
    """

    kind: str
    start: int
    end: int
    value: Any = None
    code: int | None = None
    items: list[Node] = field(default_factory=list)
    keys: list[Node] = field(default_factory=list)

    @property
    def type_name(self) -> str:
        """Kind and, where it has one, length or extension type."""
        if self.kind in (ARRAY, MAP):
            return f"{self.kind} of {len(self.items)}"
        return f"ext {self.code}" if self.kind == EXT else self.kind

    def walk(
        self, path: tuple[int | str, ...] = ()
    ) -> Iterator[tuple[tuple[int | str, ...], Node]]:
        """Return this value and all inside, each with its path: positions, and keys of maps."""
        yield path, self
        for place, item in enumerate(self.items):
            step: int | str = place
            if self.kind == MAP:
                key = self.keys[place].value
                step = key if isinstance(key, str) else repr(key)
            yield from item.walk((*path, step))


def read_tree(body: bytes, *, trailing: bool = False) -> Node:
    """Read the one value of a frame.

    Args:
        body: the frame.
        trailing: accept bytes behind the value.

    Raises:
        TreeError: it is empty, ends in the middle, holds a byte that means nothing, nests too
            deep, or has bytes behind the value.
    """
    reader = _Reader(body)
    node = reader.read(0)
    if node.end < len(body) and not trailing:
        raise TreeError(node.end, f"{len(body) - node.end} bytes behind the value")
    return node


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        # Limits by the library's own measure would hide where a header lies about its length.
        self._unpacker = msgpack.Unpacker(
            raw=True, strict_map_key=False, max_buffer_size=0, max_array_len=2**32 - 1,
            max_map_len=2**32 - 1,
        )  # fmt: skip
        self._unpacker.feed(body)

    def read(self, depth: int) -> Node:
        start = self._unpacker.tell()
        if start >= len(self._body):
            raise TreeError(start, "the frame ends where a value should begin")
        if depth > DEPTH_MAX:
            raise TreeError(start, f"nested deeper than {DEPTH_MAX} levels")
        first = self._body[start]
        kind = next(name for bound, name in _FIRST_BYTE if first <= bound)
        if not kind:
            raise TreeError(start, f"the byte {first:02x} begins no value")
        try:
            if kind == ARRAY:
                count = self._unpacker.read_array_header()
                items = [self.read(depth + 1) for _ in range(count)]
                return Node(kind, start, self._unpacker.tell(), items=items)
            if kind == MAP:
                count = self._unpacker.read_map_header()
                node = Node(kind, start, start)
                for _ in range(count):
                    node.keys.append(self.read(depth + 1))
                    node.items.append(self.read(depth + 1))
                node.end = self._unpacker.tell()
                return node
            value = self._unpacker.unpack()
        except TreeError:
            raise
        except msgpack.OutOfData as error:
            left = len(self._body) - start
            raise TreeError(start, f"a value ({kind}) is cut off after {left} bytes") from error
        except (ValueError, msgpack.UnpackException) as error:
            raise TreeError(start, f"{type(error).__name__}: {error}") from error
        return self._scalar(kind, start, first, value)

    def _scalar(self, kind: str, start: int, first: int, value: Any) -> Node:
        end = self._unpacker.tell()
        if kind == STR:
            try:
                return Node(kind, start, end, value.decode())
            except UnicodeDecodeError as error:
                raise TreeError(start, f"a string is not UTF-8: {error.reason}") from error
        if kind != EXT:
            return Node(kind, start, end, value)
        at = start + _EXT_CODE_AT.get(first, 1)
        code = int.from_bytes(self._body[at : at + 1], "big", signed=True)
        return Node(kind, start, end, self._body[at + 1 : end], code)
