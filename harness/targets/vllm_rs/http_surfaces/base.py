"""What the HTTP APIs have in common: a request body, and a reading of the answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from client.protocol.strict_json import loads
from harness.scenario.model import CallStep
from harness.targets.base import OnOutput
from harness.targets.vllm_rs.http_surfaces.sse import ServerEvent

DONE = "[DONE]"
Json = Mapping[str, Any]


def error_message(body: str) -> str:
    """Return the message of an error body, or the body itself."""
    try:
        decoded = loads(body, lenient=True)
    except ValueError:
        return body
    message = message_of(decoded)
    return body if message is None else message


def message_of(decoded: Any) -> str | None:
    """Return the message of a decoded error body, ``None`` if it has none."""
    error = decoded.get("error") if isinstance(decoded, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else None


@dataclass(slots=True)
class Reading:
    """What was read of one generation so far.

    Attributes:
        text: all of it.
        finish: the finish reason, in the engine's words.
        failure: message of an error event; ``failure_code`` its HTTP-like code, if it has one.
        over: the terminal event of the stream was read.
        overrun: something followed it.
        last: the last decoded JSON.
    """

    on_output: OnOutput
    text: str = ""
    finish: str | None = None
    kv_transfer_params: Json | None = None
    failure: str | None = None
    failure_code: int | None = None
    over: bool = False
    overrun: bool = False
    last: Any = None

    def piece(
        self, tokens: tuple[int, ...] = (), finish: str | None = None, text: str = ""
    ) -> None:
        """Report a piece to the caller, unless there is nothing in it."""
        self.text += text
        self.finish = finish or self.finish
        if tokens or text or finish is not None:
            self.on_output(tokens, finish, text)

    def fail(self, decoded: Any, data: str) -> None:
        """Take an error event."""
        self.failure = message_of(decoded) or data
        error = decoded.get("error") if isinstance(decoded, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        self.failure_code = code if isinstance(code, int) else None


class HttpSurface(ABC):
    """One API, with one answer or as a stream (``stream``).

    ``path`` and ``prefix`` (of the external id) are the route's; ``since`` is the first release
    that serves it, ``stream_since`` that streams; ``None``: no known release does.
    """

    path: ClassVar[str]
    prefix: ClassVar[str] = ""
    since: ClassVar[str | None] = "0.22.0"
    stream_since: ClassVar[str | None] = "0.22.0"
    shows_tokens: ClassVar[bool] = True
    shows_text: ClassVar[bool] = True
    takes_text: ClassVar[bool] = False
    """The prompt travels as text."""

    @abstractmethod
    def body(self, step: CallStep, model: str, *, stream: bool) -> dict[str, Any]:
        """Return the request body of a call, without the keys that the step adds."""

    @abstractmethod
    def answer(self, decoded: Json, reading: Reading) -> None:
        """Take a whole answer with status 200."""

    @abstractmethod
    def chunk(self, name: str, decoded: Json, reading: Reading) -> None:
        """Take one event of a stream that is no error."""

    def event(self, event: ServerEvent, reading: Reading) -> None:
        """Take one event of a stream; the end is ``[DONE]`` unless an API says otherwise."""
        if reading.over:
            reading.overrun = True
            return
        if event.data == DONE:
            reading.over = True
            return
        decoded = loads(event.data, lenient=True)
        reading.last = decoded
        if isinstance(decoded, dict) and decoded.get("error") is not None:
            reading.fail(decoded, event.data)
        else:
            self.chunk(event.name, decoded, reading)


def merged(body: dict[str, Any], extra: Json) -> dict[str, Any]:
    """Add a step's own keys to a body; a mapping is merged into a mapping, the rest replaces."""
    result = dict(body)
    for key, given in extra.items():
        value = given
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = merged(old, value)
        result[key] = value
    return result


def optional(step: CallStep, *, stop: str = "stop") -> dict[str, Any]:
    """Return the keys of a request that are left out unless the step sets them."""
    keys: dict[str, Any] = {}
    if step.kv_transfer_params is not None:
        keys["kv_transfer_params"] = step.kv_transfer_params
    if step.stop:
        keys[stop] = list(step.stop)
    return keys


def usual_choices(decoded: Json, reading: Reading) -> None:
    """Take the choices of an answer that names tokens, text and finish reason as completions do."""
    extra = decoded.get("kv_transfer_params")
    if isinstance(extra, dict):
        reading.kv_transfer_params = extra
    for choice in decoded.get("choices") or []:
        message = choice.get("message") or choice.get("delta") or {}
        reading.piece(
            tuple(choice.get("token_ids") or ()),
            choice.get("finish_reason"),
            choice.get("text") or message.get("content") or "",
        )
