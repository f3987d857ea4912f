"""The reference of trace events: every kind, what it says, its fields with their types."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator

from client.events import ClientEvent
from harness.docs.markdown import list_of, prose, table
from harness.trace.kinds import FIELDS_OF, KIND_OF
from mock_engines.events import MockEvent

TELLERS = {
    "engines": (
        "Told by the engines",
        "What went over the wire, as an engine saw it. These are there on every target.",
    ),
    "harness": (
        "Told by the harness",
        "What callers did and saw, and what the harness did. These are there on every target that "
        "can show them.",
    ),
    "client": (
        "Told by the client",
        "What happened inside the reference client. A real frontend shows none of these, but for "
        "`health`, and beside an external coordinator, which is ours, for what that tells.",
    ),
}
_ATTRIBUTES = re.compile(r"\n\s*(?:Attributes|Source):.*", re.DOTALL)
_WORDS: dict[object, str] = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    bytes: "bytes",
    type(None): "null",
}


def teller(event_type: type) -> str:
    """Who tells an event: the engines, the client or the harness."""
    tellers = {"engines": typing.get_args(MockEvent), "client": typing.get_args(ClientEvent)}
    return next((who for who, types_ in tellers.items() if event_type in types_), "harness")


def reference() -> str:
    """A table of kinds for each who tells."""
    parts = []
    for who, (title, words) in TELLERS.items():
        rows = _rows(who)
        parts.append(f"## {title}\n\n{words}\n\n{table(('kind', 'fields', 'says'), rows)}")
    return "\n".join(parts)


def _rows(who: str) -> Iterator[tuple[str, str, str]]:
    for event_type, (kind, _) in KIND_OF.items():
        if teller(event_type) != who:
            continue
        hints = typing.get_type_hints(event_type)
        fields = "; ".join(
            f"`{name}`: {kind_of(hints[name])}" if name in hints else f"`{name}`"
            for name in FIELDS_OF[event_type]
        )
        yield f"`{kind}`", fields, prose(_ATTRIBUTES.sub("", event_type.__doc__ or ""))


def kind_of(hint: object) -> str:
    """A type in words: ``list of text``, ``whole number or null``."""
    if hint in _WORDS:
        return _WORDS[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(kind_of(each) for each in inner)
    if origin is typing.Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return list_of(kind_of(inner[0]))
    if origin is tuple and inner:
        return f"[{', '.join(kind_of(each) for each in inner)}]".replace("[", r"\[")
    if origin in (list, frozenset, set):
        return list_of(kind_of(inner[0]))
    return "mapping" if origin is not None else "value"
