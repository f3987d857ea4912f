"""Server-sent events, as far as the frontend's APIs use them.

Source: HTML standard, section 9.2 (server-sent events).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """``name`` is empty for an event without a type of its own."""

    name: str
    data: str


@dataclass(slots=True)
class EventParser:
    """Turns bytes into events; comments (keep-alive) are skipped."""

    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _rest: str = ""
    _name: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """Take bytes and yield the events that are whole now."""
        self._rest += self._decoder.decode(data)
        *lines, self._rest = self._rest.split("\n")
        for line in lines:
            event = self._line(line.removesuffix("\r"))
            if event is not None:
                yield event

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            event = ServerEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data = "", []
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        return None
