"""Mock events as JSON values, to pass from a child process to its parent."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from mock_engines import events

_TYPES: dict[str, type[Any]] = {cls.__name__: cls for cls in typing.get_args(events.MockEvent)}


def event_to_json(event: events.MockEvent) -> dict[str, Any]:
    """Return an event as a map of plain values; bytes become hex."""
    fields = {name: _plain(getattr(event, name)) for name in event.__struct_fields__}
    return {"kind": type(event).__name__, **fields}


def event_from_json(value: Mapping[str, Any]) -> events.MockEvent:
    """Rebuild an event.

    Raises:
        KeyError, TypeError: no event has this kind or these fields.
    """
    cls = _TYPES[value["kind"]]
    fields = {name: _tuples(item) for name, item in value.items() if name != "kind"}
    if cls is events.EngineJoined:
        fields["identity"] = bytes.fromhex(fields["identity"])
    event: events.MockEvent = cls(**fields)
    return event


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
