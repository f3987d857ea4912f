"""Messages that are to be explained: out of a capture, golden vectors, hex lines or raw bytes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from client.protocol.profiles import PROFILES
from client.protocol.strict_json import loads
from harness.capture import file as capture_file
from harness.capture.kinds import KINDS, Kind, kind_of_frame
from harness.capture.parts import PartError, frames, part, word
from harness.capture.take import Capture
from harness.shortened import shortened
from mock_engines.frames import parse_frame

GOLDEN_KEY = "wavecheck_golden"
GOLDEN_VERSION = 1
EMPTY_FRAME = "-"
"""How a frame without bytes is written in a line of hexadecimal frames."""
_PRINTABLE = frozenset(string.printable.encode())


class SourceError(ValueError):
    """What is given cannot be read as messages; the message says where and why."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


@dataclass(frozen=True, slots=True)
class Message:
    """One message and what is known about it.

    Attributes:
        title: where it comes from, for people.
        kind: what it is, ``None`` if it has to be guessed.
        release: of the frontend that it was recorded with, or ``None``.
    """

    title: str
    frames: tuple[bytes, ...]
    kind: Kind | None = None
    release: str | None = None


def messages_of(content: bytes, *, binary: bool = False) -> list[Message]:
    """Read messages.

    Args:
        content: of the file.
        binary: take it as one frame, whatever it looks like.

    Raises:
        SourceError: it looks like text and is none of the known forms, or it is empty.
    """
    if not content:
        msg = "it is empty"
        raise SourceError(msg)
    if binary or not _PRINTABLE.issuperset(content):
        if not binary and (text := _utf8(content)) is not None and text.lstrip().startswith("{"):
            return _of_json(text)
        return [Message("one frame", (content,))]
    text = content.decode("ascii")
    if text.lstrip().startswith("{"):
        return _of_json(text)
    return _of_lines(text.splitlines())


def _utf8(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _of_json(text: str) -> list[Message]:
    first = text.lstrip().split("\n", 1)[0]
    if capture_file.is_capture(first):
        try:
            return _of_capture(capture_file.read(StringIO(text)))
        except capture_file.CaptureFileError as error:
            raise SourceError(str(error)) from error
    try:
        document = loads(text)
    except ValueError as error:
        msg = f"it begins like JSON and is none: {error}"
        raise SourceError(msg) from error
    if GOLDEN_KEY not in document:
        msg = "this JSON is neither a capture nor a file of golden vectors"
        raise SourceError(msg)
    return _of_golden(document)


def _of_golden(document: dict[str, Any]) -> list[Message]:
    if (version := document[GOLDEN_KEY]) != GOLDEN_VERSION:
        msg = f"golden vectors of format {version!r}; this version reads format {GOLDEN_VERSION}"
        raise SourceError(msg)
    found = []
    try:
        vectors = part(document, "vectors", list)
    except PartError as error:
        msg = f"not a file of golden vectors: {error}"
        raise SourceError(msg) from error
    for number, vector in enumerate(vectors, start=1):
        try:
            name = part(vector, "name", str)
            kind = KINDS[word(vector, "kind", KINDS)]
            found.append(Message(f"vector {name}", frames(vector), kind))
        except PartError as error:
            known = isinstance(vector, dict) and isinstance(vector.get("name"), str)
            which = f"vector {number}" + (f" ({vector['name']})" if known else "")
            msg = f"{which}: {error}"
            raise SourceError(msg) from error
    if not found:
        msg = "there is no vector in it"
        raise SourceError(msg)
    return found


def _of_capture(capture: Capture) -> list[Message]:
    found = []
    for story in capture.stories:
        release = story.release if story.release in PROFILES else None
        for frame in story.frames:
            title = f"{story.id} #{frame.n}, engine {frame.engine}, {frame.socket}"
            found.append(Message(title, frame.frames, kind_of_frame(frame), release))
    return found


def _of_lines(lines: Sequence[str]) -> list[Message]:
    found = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            given = tuple(b"" if one == EMPTY_FRAME else parse_frame(one) for one in words)
        except ValueError as error:
            msg = f"line {number}: {error}"
            raise SourceError(msg) from error
        found.append(Message(f"line {number}", given))
    if not found:
        msg = "there is no message in it"
        raise SourceError(msg)
    return found
