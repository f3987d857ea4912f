"""Checks of what engines are told: joins, streams, answers, and numbers that the wire carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from harness.scenario.finding import Finding
from harness.scenario.positions import Path
from harness.scenario.problems import show
from mock_engines.behaviours.model import Action, Join, ReplyWith, Stream
from mock_engines.frames import parse_frame

_WIRE_MIN, _WIRE_MAX = -(2**63), 2**64 - 1
"""Whole numbers that msgpack has."""


def is_hex(text: str) -> bool:
    """Whether a text is bytes in hexadecimal."""
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True


def check_action(path: Path, action: Action) -> Iterator[Finding]:
    """What one action says fits together, and can be sent."""
    if action.stream is not None:
        yield from _stream((*path, "stream"), action.stream)
    if action.reply_with is not None:
        yield from _reply((*path, "reply_with"), action.reply_with)
    if action.raw is not None and not action.raw.frames:
        yield Finding((*path, "raw", "frames"), "there is no frame to send", "at least one")
    yield from _numbers(path, action)


def _stream(path: Path, stream: Stream) -> Iterator[Finding]:
    if stream.pause_at is not None and stream.gate is None:
        yield Finding((*path, "pause_at"), "the stream pauses for ever", "key 'gate'")
    tokens = stream.tokens
    if tokens is not None and stream.pause_at is not None and stream.pause_at > tokens:
        title = f"the stream has {tokens} tokens, so it never pauses at {stream.pause_at}"
        yield Finding((*path, "pause_at"), title, f"0 to {tokens}")
    if stream.error is not None and stream.finish != "error":
        yield Finding((*path, "error"), "only a stream with finish: error carries an error")
    for key in sorted(set(stream.error or {}) - {"code", "message", "retryable"}):
        title = f"an error of a stream has no '{key}'"
        yield Finding((*path, "error", key), title, "code, message, retryable")


def _reply(path: Path, reply: ReplyWith) -> Iterator[Finding]:
    given = reply.model_fields_set
    for first, second in (
        ("value", "failure"),
        ("failure", "list_of"),
        ("call_id", "add_to_call_id"),
    ):
        if {first, second} <= given:
            yield Finding((*path, second), f"'{first}' and '{second}' exclude each other")


def check_join(path: Path, join: Join) -> Iterator[Finding]:
    """What is said of a startup can be sent, and does not contradict itself."""
    given = join.model_fields_set
    for key in ("identity", "ready_raw"):
        text = getattr(join, key)
        if text is not None and not is_hex(text):
            yield Finding((*path, key), f"'{text}' is no hexadecimal text", "such as '00ff'")
    for key in ("hello_raw", "subscribe_raw"):
        for i, text in enumerate(getattr(join, key) or []):
            try:
                parse_frame(text)
            except ValueError as error:
                yield Finding((*path, key, i), str(error))
    if "ready_raw" in given:
        for key in sorted(given & {"ready", "ready_without"}):
            yield Finding((*path, key), f"'ready_raw' and '{key}' exclude each other")
    if join.never is not None:
        for key in sorted(given - {"never"}):
            yield Finding((*path, key), f"an engine that never joins has no '{key}'")
    for i, key in enumerate(join.ready_without):
        if key in join.ready:
            title = f"the ready response has '{key}' and lacks it"
            yield Finding((*path, "ready_without", i), title, "one of the two")
    yield from _numbers(path, join)


def _numbers(path: Path, model: BaseModel) -> Iterator[Finding]:
    for where, number in _whole(path, model.model_dump(exclude_unset=True)):
        if not _WIRE_MIN <= number <= _WIRE_MAX:
            yield Finding(
                where,
                f"{number} does not fit into 64 bits, so no message carries it",
                f"{_WIRE_MIN} to {_WIRE_MAX}",
                seen=show(number),
            )


def _whole(path: Path, value: Any) -> Iterator[tuple[Path, int]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _whole((*path, key), inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for i, inner in enumerate(value):
            yield from _whole((*path, i), inner)
    elif isinstance(value, int):
        yield path, value
