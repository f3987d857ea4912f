"""One HTTP request as routes see it, and the answers they give. No aiohttp here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.reference_frontend.requests import read_json
from harness.reference_frontend.texts import OK

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Call:
    """A request. ``query`` keeps repeated keys; ``headers`` has lower-case names."""

    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, Sequence[str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        values = self.headers.get(name.lower())
        return values[0] if values else None

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object. Raises ``Refusal``."""
        kind = (self.header("content-type") or "").partition(";")[0].strip().lower()
        return read_json(self.body, kind)

    def parameter(self, name: str) -> str | None:
        """Return the first value of a query parameter."""
        return next((value for key, value in self.query if key == name), None)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    status: int = OK
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def json_reply(value: Any, status: int = OK) -> Reply:
    """Return an answer of compact JSON."""
    return Reply(status, compact(value), JSON)


def text_reply(text: str, status: int = OK) -> Reply:
    """Return an answer of plain text."""
    return Reply(status, text.encode(), TEXT)


def compact(value: Any) -> bytes:
    """Encode as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
