"""Parts of a JSON object that somebody else may have written or broken."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from client.protocol.codec_values import U64_MAX
from client.protocol.strict_json import loads
from harness.scenario.problems import did_you_mean, one_of

T = TypeVar("T")

_NAMES: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    object: "a value",
}
NESTING_MAX = 256
"""Arrays and objects inside each other in a line: what walks through one recurses. A message nests half as deep."""
NUMBER_MAX = U64_MAX
"""Largest number of a message, time in microseconds, or count."""
_SHOWN = 60
"""Characters of a wrong value that are shown."""


def loads_flat(text: str, *, lenient: bool = False) -> Any:
    """``strict_json.loads`` for what is walked through afterwards.

    Raises:
        ValueError: as there, and for what nests deeper than ``NESTING_MAX``.
    """
    value = loads(text, lenient=lenient)
    if text.count("[") + text.count("{") > NESTING_MAX and _is_deep(value):
        msg = f"arrays and objects nest deeper than {NESTING_MAX} levels"
        raise ValueError(msg)
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(NESTING_MAX + 1):
        inner = [
            item.values() if isinstance(item, dict) else item
            for item in level
            if isinstance(item, dict | list)
        ]
        if not inner:
            return False
        level = [item for items in inner for item in items]
    return True


class PartError(ValueError):
    """A part is missing or of another kind; the message names it and what is expected."""


def part(item: Any, key: str, kind: type[T]) -> T:
    """Return a part of an object.

    Raises:
        PartError: it is not there, or it is something else.
    """
    if not isinstance(item, dict):
        msg = f"expected an object, found {_shown(item)}"
        raise PartError(msg)
    if key not in item:
        near = did_you_mean(key, [name for name in item if isinstance(name, str)])
        msg = f"'{key}' is missing; expected {_NAMES[kind]}" + (f" ({near})" if near else "")
        raise PartError(msg)
    value = item[key]
    # JSON's true and false are no numbers.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        msg = f"'{key}' is {_shown(value)}; expected {_NAMES[kind]}"
        raise PartError(msg)
    return value


def number(item: Any, key: str, most: int = NUMBER_MAX, *, least: int = 0) -> int:
    """Return a part that is a whole number within bounds.

    Raises:
        PartError: it is not there, something else, below ``least`` or above ``most``.
    """
    value = part(item, key, int)
    if not least <= value <= most:
        msg = f"'{key}' is {_shown(value)}; expected a whole number from {least} to {most:,}"
        raise PartError(msg)
    return value


def word(item: Any, key: str, choices: Collection[str]) -> str:
    """Return a part that is one of several words.

    Raises:
        PartError: it is not there, or none of them.
    """
    value = part(item, key, str)
    if value not in choices:
        near = did_you_mean(value, choices)
        msg = f"'{key}' is {_shown(value)}; expected {one_of(choices)}" + (
            f"; {near}" if near else ""
        )
        raise PartError(msg)
    return value


def texts(item: Any, key: str) -> tuple[str, ...]:
    """Return a part that is a list of texts.

    Raises:
        PartError: it is not there, or something else.
    """
    values = part(item, key, list)
    for place, value in enumerate(values, start=1):
        if not isinstance(value, str):
            msg = f"entry {place} of '{key}' is {_shown(value)}; expected a text"
            raise PartError(msg)
    return tuple(values)


def frames(item: Any, key: str = "frames") -> tuple[bytes, ...]:
    """Return a part that is a list of frames in hexadecimal.

    Raises:
        PartError: it is not there, or a frame is something else.
    """
    found = []
    for place, text in enumerate(texts(item, key), start=1):
        try:
            found.append(bytes.fromhex(text))
        except ValueError:
            msg = f"frame {place} is {_shown(text)}; expected an even number of hexadecimal digits"
            raise PartError(msg) from None
    return tuple(found)


def _shown(value: Any) -> str:
    text = {None: "null", True: "true", False: "false"}.get(value) if _plain(value) else None
    text = repr(value) if text is None else text
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool)
