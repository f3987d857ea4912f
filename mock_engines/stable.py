"""One text for one value, whatever order its maps and sets were built in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

_PLAIN = frozenset({int, str, float, bool, bytes, type(None)})
"""Asked for first: values of ten thousand items are compared with abstract classes otherwise."""


def stable_repr(value: Any) -> str:
    """``repr`` with map keys and set members sorted; lists and tuples look alike."""
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, Mapping):
        pairs = sorted((stable_repr(key), stable_repr(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if isinstance(value, AbstractSet):
        return "{" + ", ".join(sorted(stable_repr(item) for item in value)) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return "[" + ", ".join(stable_repr(item) for item in value) + "]"
    return repr(value)
