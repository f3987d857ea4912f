"""Values that JSON does not know, inside lines: bytes and maps whose keys are no text.

Results of utility calls come from an engine's msgpack, which knows both. Bytes become
``{"$bytes": hex}``, such a map ``{"$map": [[key, value], …]}``; all else is JSON as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BYTES, MAP = "$bytes", "$map"


def to_plain(value: Any) -> Any:
    """Return ``value`` as JSON can carry it; tuples become lists.

    Raises:
        TypeError: it holds something that has no form here.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return {BYTES: bytes(value).hex()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: to_plain(item) for key, item in value.items()}
        return {MAP: [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    msg = f"a {type(value).__name__} has no form in a line"
    raise TypeError(msg)


def from_plain(value: Any) -> Any:
    """Return what ``to_plain`` was given, with lists for tuples.

    Raises:
        ValueError: a map with ``$bytes`` or ``$map`` that is none of ours.
    """
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if BYTES in value:
        if len(value) != 1 or not isinstance(value[BYTES], str):
            msg = f"{BYTES} takes hex digits, and no key beside it"
            raise ValueError(msg)
        return bytes.fromhex(value[BYTES])
    if MAP in value:
        return _pairs(value)
    return {key: from_plain(item) for key, item in value.items()}


def _pairs(value: Mapping[str, Any]) -> dict[Any, Any]:
    pairs = value[MAP]
    if len(value) != 1 or not isinstance(pairs, list):
        msg = f"{MAP} takes a list of pairs, and no key beside it"
        raise ValueError(msg)
    found: dict[Any, Any] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            msg = f"{MAP} takes pairs of a key and a value"
            raise ValueError(msg)
        try:
            found[from_plain(pair[0])] = from_plain(pair[1])
        except TypeError as error:
            msg = f"{MAP}: a list or a map is no key"
            raise ValueError(msg) from error
    return found
