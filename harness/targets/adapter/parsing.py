"""From bytes of an adapter to a line, and from a command to bytes; errors name key and reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from client.protocol.strict_json import loads
from harness.shortened import shortened
from harness.targets.adapter.lines import EVENT_LINES, PLAIN_LINES, Command, Line
from harness.targets.adapter.vocabulary import nearest

SHOWN_MAX = 300
"""Longer lines are cut to this many characters in messages."""
PROBLEMS_MAX = 3


class LineError(ValueError):
    """A line is none of the protocol's; the message says why, without the line itself."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


def shown(raw: bytes) -> str:
    """Return a line for people: as text, cut, control characters escaped."""
    text = raw.decode("utf-8", "backslashreplace").rstrip("\n")
    cut = text[:SHOWN_MAX] + (f"… ({len(raw)} bytes)" if len(text) > SHOWN_MAX else "")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def to_bytes(command: Command) -> bytes:
    """Return a command as its line, with all its keys: nobody need know any default."""
    return json.dumps(command.model_dump(mode="json"), separators=(",", ":")).encode() + b"\n"


def keyword(command: type[Command]) -> str:
    """Its ``do``."""
    found: str = command.model_fields["do"].default
    return found


def parse(raw: bytes) -> Line:
    """Return a line of an adapter.

    Raises:
        LineError: it is no JSON object, its ``say`` or ``kind`` is unknown, or a key is missing,
            unknown, or has an invalid value.
    """
    try:
        value = loads(raw.decode())
    except ValueError as error:
        msg = f"it is not JSON ({error})"
        raise LineError(msg) from error
    if not isinstance(value, dict):
        msg = f"it is {_kind(value)}, not a JSON object"
        raise LineError(msg)
    try:
        return _model(value).model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise LineError(problems(error)) from error


def _model(value: dict[str, Any]) -> type[Line]:
    said = value.get("say")
    if said == "event":
        return _known(EVENT_LINES, value.get("kind"), "kind")
    if isinstance(said, str) and said in PLAIN_LINES:
        return PLAIN_LINES[said]
    return _known({**PLAIN_LINES, "event": Line}, said, "say")


def _known(models: Mapping[str, type[Line]], word: Any, key: str) -> type[Line]:
    if isinstance(word, str) and word in models:
        return models[word]
    if word is None:
        msg = f"key {key!r} is missing"
        raise LineError(msg)
    near = nearest(word, models) if isinstance(word, str) else ""
    msg = f"key {key!r} is {json.dumps(word)[:SHOWN_MAX]}{near}; known: {', '.join(models)}"
    raise LineError(msg)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def problems(error: ValidationError) -> str:
    """Return the first problems that pydantic found, as one line."""
    found = error.errors(include_url=False)
    parts = [f"key {_path(one['loc'])}: {one['msg']}" for one in found[:PROBLEMS_MAX]]
    if len(found) > PROBLEMS_MAX:
        parts.append(f"and {len(found) - PROBLEMS_MAX} more")
    return "; ".join(parts)


def _path(location: tuple[int | str, ...]) -> str:
    return repr(".".join(str(part) for part in location))
