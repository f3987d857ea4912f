"""Checks on single values that all decoders share; ``Any`` ends here.

A check returns the value, typed, or raises ``DecodeError`` with the place it was given. What
leaves a decoder has passed one, or is free-form by contract.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgpack

from client.protocol.codec_errors import DecodeError, ExtValueDecodeError
from client.protocol.codec_msgpack import Where
from client.protocol.ids import U32_MAX

U64_MAX = (1 << 64) - 1
I64_MIN = -(1 << 63)
_SHOWN_CHARS_MAX = 60

T = TypeVar("T")


def shown(value: object) -> str:
    """Show a refused value: its type and a short form, made of its beginning alone."""
    if value is None:
        return "nil"
    text = repr(_beginning(value))
    short = text if len(text) <= _SHOWN_CHARS_MAX else f"{text[: _SHOWN_CHARS_MAX - 3]}..."
    return f"{type(value).__name__} {short}"


def _beginning(value: object) -> object:
    """As much of a value as its short form can show: a large one is not printed in full."""
    most = _SHOWN_CHARS_MAX
    if isinstance(value, str | bytes) and len(value) > most:
        return value[: most + 1]
    if isinstance(value, msgpack.ExtType) and len(value.data) > most:
        return msgpack.ExtType(value.code, value.data[: most + 1])
    if type(value) is list:
        return [_beginning(item) for item in value[:most]]
    if type(value) is dict:
        return {
            _beginning(key): _beginning(item) for key, item in itertools.islice(value.items(), most)
        }
    return value


def refuse(where: Where, expected: str, value: object) -> DecodeError:
    """Make the error for a value of the wrong type or range."""
    return DecodeError(where.message, where.field, f"expected {expected}, got {shown(value)}")


def refuse_ext(where: Where, reason: str) -> ExtValueDecodeError:
    """Make the error for a wrong tensor."""
    return ExtValueDecodeError(where.message, where.field, reason)


def read_int(value: Any, where: Where, low: int = 0, high: int = U32_MAX) -> int:
    """Check an integer within bounds, u32 by default; bools and floats are none."""
    if type(value) is int and low <= value <= high:
        return value
    raise refuse(where, f"integer in {low}..{high}", value)


def read_float(value: Any, where: Where) -> float:
    """Check a number; integers are taken too."""
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    raise refuse(where, "number", value)


def read_bool(value: Any, where: Where) -> bool:
    """Check a bool."""
    if type(value) is bool:
        return value
    raise refuse(where, "bool", value)


def read_str(value: Any, where: Where) -> str:
    """Check a string."""
    if type(value) is str:
        return value
    raise refuse(where, "string", value)


def read_text(value: Any, where: Where) -> str:
    """Check a string, or bytes that hold UTF-8: the Rust client takes both."""
    if type(value) is str:
        return value
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise refuse(where, "UTF-8", value) from error
    raise refuse(where, "string", value)


def read_list(value: Any, where: Where) -> list[Any]:
    """Check an array."""
    if type(value) is list:
        return value
    raise refuse(where, "array", value)


def read_map(value: Any, where: Where) -> dict[Any, Any]:
    """Check a map."""
    if type(value) is dict:
        return value
    raise refuse(where, "map", value)


def read_struct(value: Any, where: Where) -> dict[Any, Any]:
    """Check a map that stands for a struct: integer keys would be field numbers in Rust."""
    for key in read_map(value, where):
        if type(key) is not str and type(key) is not bytes:
            raise refuse(where, "string keys", key)
    checked: dict[Any, Any] = value
    return checked


def read_json(value: Any, where: Where) -> Any:
    """Check a value that JSON has too: no bytes, no extension types, string keys only."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value) is list:
        for item in value:
            read_json(item, where)
        return value
    if type(value) is dict:
        for key, item in value.items():
            read_str(key, where)
            read_json(item, where)
        return value
    raise refuse(where, "a value that JSON has", value)


def read_u64(value: Any, where: Where) -> int:
    """Check a u64."""
    return read_int(value, where, 0, U64_MAX)


def read_int64(value: Any, where: Where) -> int:
    """Check an integer of up to 64 bits, either sign."""
    return read_int(value, where, I64_MIN, U64_MAX)


def read_u64s(value: Any, where: Where) -> tuple[int, ...]:
    """Check an array of u64."""
    return tuple([read_u64(item, where) for item in read_list(value, where)])


def read_u32s(value: Any, where: Where) -> tuple[int, ...]:
    """Check an array of u32; bytes stand for an array of u8, as in the Rust client."""
    if type(value) is bytes:
        return tuple(value)
    return tuple([read_int(item, where) for item in read_list(value, where)])


def read_ints(value: Any, where: Where) -> tuple[int, ...]:
    """Check an array of integers of up to 64 bits."""
    return tuple([read_int64(item, where) for item in read_list(value, where)])


def read_bools(value: Any, where: Where) -> tuple[bool, ...]:
    """Check an array of bools."""
    return tuple([read_bool(item, where) for item in read_list(value, where)])


def read_strs(value: Any, where: Where) -> tuple[str, ...]:
    """Check an array of strings."""
    return tuple([read_str(item, where) for item in read_list(value, where)])


def read_texts(value: Any, where: Where) -> tuple[str, ...]:
    """Check an array of strings or UTF-8 bytes."""
    return tuple([read_text(item, where) for item in read_list(value, where)])


def read_opaque(value: Any, _where: Where) -> Any:
    """Take any value."""
    return value


def optional(read: Callable[[Any, Where], T]) -> Callable[[Any, Where], T | None]:
    """Make a check that takes nil too."""

    def read_optional(value: Any, where: Where) -> T | None:
        return None if value is None else read(value, where)

    return read_optional


Reader = Callable[[Any, Where], Any]
"""A check of one value."""


def check_keys(
    values: Mapping[Any, Any],
    message: str,
    struct: str,
    readers: Mapping[str, Reader],
    required: Collection[str],
) -> None:
    """Check the known keys of a map.

    Raises:
        DecodeError: a required key is missing, or a known one has another type.
    """
    for key in required:
        if key not in values:
            raise DecodeError(message, f"{struct}.{key}", f"missing field `{key}`")
    for key, read in readers.items():
        if key in values:
            read(values[key], _place(message, struct, key))


@functools.cache
def _place(message: str, struct: str, key: str) -> Where:
    """Kept: there are a few dozen, and each startup asks for them all."""
    return Where(message, f"{struct}.{key}")


def read_row(value: Any, where: Where, low: int, high: int | None) -> list[Any]:
    """Check an array struct's length; ``high=None``: any number of trailing fields."""
    row = read_list(value, where)
    if len(row) < low or (high is not None and len(row) > high):
        bound = "or more" if high is None else f"to {high}"
        reason = f"invalid length {len(row)}, expected {low} {bound} elements"
        raise DecodeError(where.message, where.field, reason)
    return row
