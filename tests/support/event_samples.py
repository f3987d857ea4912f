"""Instances of event classes, from the types of their fields."""

from __future__ import annotations

import types
import typing
from typing import Any

from hypothesis import strategies as st


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of one field's type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*(values(arg) for arg in args))
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(arg) for arg in args))
    plain = {
        int: st.integers(-(2**64), 2**64),
        str: st.text(max_size=8),
        bytes: st.binary(max_size=4),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    return plain[hint]


def instances(cls: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{name: values(hint) for name, hint in hints.items()})


def sample(cls: type) -> Any:
    """One instance, without chance; each field has the first type that it may have."""
    hints = typing.get_type_hints(cls)
    return cls(**{name: _one(hint) for name, hint in hints.items()})


def _one(hint: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _one(args[0])
    if origin is tuple and args[-1] is Ellipsis:
        return (_one(args[0]),)
    if origin is tuple:
        return tuple(_one(arg) for arg in args)
    return {int: 7, str: "text", bytes: b"\x01\x00", bool: True, float: 0.5}[hint]
