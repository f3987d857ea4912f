"""Whether a value is the JSON form of a gRPC message; pure, by the tables of ``grpc_messages``.

Files are checked with it before anything runs, also where protobuf is not installed. It takes
no more than protobuf does, and less where a file could not mean what it says: only the names of
the tables, and no ``null``, which protobuf leaves out without a word.

Source: https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.numerals import number_of
from harness.targets.vllm_rs.grpc_messages import ENUMS, MESSAGES, Field

Path = tuple[str | int, ...]
FLOAT_MAX = 3.4028234663852886e38
"""The largest number of 32 bits."""
_INT_BOUNDS = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_WIDE = frozenset({"int64", "uint64"})
"""Kinds whose JSON form is a text, since JSON numbers do not hold 64 bits."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that makes a value no message: where in it, what, and what would be right.

    ``word`` is the name that is wrong and ``choices`` those that there are; ``on_key``: it is the
    last key of the path.
    """

    path: Path
    title: str
    expected: str = ""
    word: str = ""
    choices: Sequence[str] = ()
    on_key: bool = False


def flaws(kind: str, value: Mapping[str, Any]) -> Iterator[Flaw]:
    """Yield what is wrong with ``value`` as a message ``kind`` (its full name).

    Raises:
        KeyError: there is no such message.
    """
    package, _, name = kind.rpartition(".")
    yield from _message(package, name, value, ())


def _message(package: str, name: str, value: Any, path: Path) -> Iterator[Flaw]:
    if not isinstance(value, Mapping):
        yield _wrong(path, value, f"a mapping with fields of {name}")
        return
    fields = {field.name: field for field in MESSAGES[package][name]}
    chosen: dict[str, str] = {}
    for key, inner in value.items():
        field = fields.get(key)
        if field is None:
            known = ", ".join(fields) or "nothing: it has no fields"
            title = f"gRPC message {name} has no field '{key}'"
            yield Flaw((*path, key), title, known, str(key), tuple(fields), on_key=True)
            continue
        if field.label.startswith("oneof "):
            first = chosen.setdefault(field.label, key)
            if first != key:
                title = f"'{first}' and '{key}' exclude each other"
                yield Flaw((*path, key), title, on_key=True)
        yield from _field(package, field, inner, (*path, key))


def _field(package: str, field: Field, value: Any, path: Path) -> Iterator[Flaw]:
    if field.label != "repeated":
        yield from _single(package, field, value, path)
    elif not isinstance(value, list):
        yield _wrong(path, value, "a list")
    else:
        for i, item in enumerate(value):
            yield from _single(package, field, item, (*path, i))


def _single(package: str, field: Field, value: Any, path: Path) -> Iterator[Flaw]:
    kind = field.kind
    if kind in MESSAGES[package]:
        yield from _message(package, kind, value, path)
    elif kind in ENUMS[package]:
        yield from _enumeration(kind, ENUMS[package][kind], value, path)
    elif kind in _INT_BOUNDS:
        yield from _whole(kind, value, path)
    else:
        fits, expected = _SCALARS[kind]
        if not fits(value):
            yield _wrong(path, value, expected)


def _enumeration(kind: str, names: tuple[str, ...], value: Any, path: Path) -> Iterator[Flaw]:
    if isinstance(value, int) and not isinstance(value, bool):
        # Any number can be sent: a reader that does not know it must cope.
        yield from _whole("int32", value, path)
    elif not isinstance(value, str):
        yield _wrong(path, value, f"one of {', '.join(names)}")
    elif value not in names:
        title = f"gRPC enumeration {kind} has no value '{value}'"
        yield Flaw(path, title, f"one of {', '.join(names)}", value, names)


def _whole(kind: str, value: Any, path: Path) -> Iterator[Flaw]:
    low, high = _INT_BOUNDS[kind]
    expected = f"a whole number from {low} to {high} ({kind})"
    if kind in _WIDE and isinstance(value, str):
        size = number_of(value.removeprefix("-"), max(high, -low))
        if size is None:
            yield _wrong(path, value, expected)
            return
        value = -size if value.startswith("-") else size
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        yield _wrong(path, value, expected)


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and -FLOAT_MAX <= value <= FLOAT_MAX


def _is_base64(value: Any) -> bool:
    if not isinstance(value, str) or not value.isascii():
        return False
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        return False
    return True


_SCALARS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "text"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "float": (_is_number, "a number of 32 bits"),
    "bytes": (_is_base64, "bytes as text in base64"),
    "Struct": (lambda value: isinstance(value, Mapping), "a mapping"),
}


def _wrong(path: Path, value: Any, expected: str) -> Flaw:
    shown = "null" if value is None else repr(value)
    if isinstance(value, bool):
        shown = str(value).lower()
    elif isinstance(value, list | Mapping):
        shown = "a list" if isinstance(value, list) else "a mapping"
    name = next((str(p) for p in reversed(path) if isinstance(p, str)), "request")
    return Flaw(path, f"{shown} is no value of gRPC field '{name}'", expected)
