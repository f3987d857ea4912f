"""A capture as a file: JSON, one object a line, described in ``docs/capture.md``.

Line 1 is the header, then for each story a ``story`` line, its messages, its trace and an ``end``
line; the last line says how many stories there are, so that a file that was cut off is noticed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from client.protocol.ids import RANKS_MAX
from client.protocol.strict_json import loads
from harness.capture.parts import PartError, frames, loads_flat, number, part, texts, word
from harness.capture.recording import FROM_ENGINE, SOCKETS, TO_ENGINE, Frame
from harness.capture.take import FAILED, PLAYED, SKIPPED, Capture, Story
from harness.reading import TooLargeError, read_regular
from harness.shortened import shortened

FORMAT_VERSION = 1
HEADER_KEY = "wavecheck_capture"
FILE_BYTES_MAX = 256 << 20
"""Of a capture, and of what else `wavecheck decode` reads."""
ENGINE_MAX = RANKS_MAX - 1
"""Largest rank of an engine that a message can name."""
UNKNOWN_ENGINE = -1
"""In place of a rank where a recording cannot tell which engine a message is of."""
LIVE_KEY = "live"
"""In the header: written while things happened, so that it may lack its end and is read as far
as it goes."""


class CaptureFileError(ValueError):
    """A capture file cannot be read; the message says where and why."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


# --- write ----------------------------------------------------------------------------------


def lines_of(capture: Capture) -> Iterator[dict[str, Any]]:
    """Return the objects of the file, in order."""
    yield {
        HEADER_KEY: FORMAT_VERSION,
        "tool": capture.tool,
        "target": capture.target,
        "version": capture.version,
        "notes": list(capture.notes),
    }
    for story in capture.stories:
        yield {
            "story": story.id,
            "title": story.title,
            "status": story.status,
            "reason": story.reason,
            "release": story.release,
        }
        for frame in story.frames:
            yield frame_line(frame)
        yield from story.events
        yield {"end": story.id, "frames": len(story.frames), "events": len(story.events)}
    yield {"complete": True, "stories": len(capture.stories)}


def frame_line(frame: Frame) -> dict[str, Any]:
    """The line of one message."""
    return {
        "n": frame.n,
        "time_us": frame.time_us,
        "engine": frame.engine,
        "socket": frame.socket,
        "direction": frame.direction,
        "frames": [part.hex() for part in frame.frames],
    }


def write(capture: Capture, file: IO[str]) -> None:
    """Write a capture."""
    for line in lines_of(capture):
        file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


# --- read -----------------------------------------------------------------------------------


def is_capture(first_line: str) -> bool:
    """Whether a file that begins with this line means to be a capture."""
    try:
        # Whether its line is right is said where the file is read.
        head = loads(first_line, lenient=True)
    except ValueError:
        return False
    return isinstance(head, dict) and HEADER_KEY in head


def read_file(path: Path) -> Capture:
    """Read a capture file.

    Raises:
        CaptureFileError: it cannot be read, is no capture, of another format, or cut off.
    """
    try:
        content = read_regular(path, FILE_BYTES_MAX)
        # Lines are decoded one by one: a text of all of them takes several times the room.
        with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8") as file:
            return read(file)
    except TooLargeError as error:
        msg = f"cannot read {path}: {error.strerror}; a capture is at most that large"
        raise CaptureFileError(msg) from error
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise CaptureFileError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is no capture: it is not UTF-8"
        raise CaptureFileError(msg) from error
    except CaptureFileError as error:
        msg = f"{path}: {error}"
        raise CaptureFileError(msg) from error


def read(file: IO[str]) -> Capture:
    """Read what ``write`` wrote.

    Raises:
        CaptureFileError: see ``read_file``.
    """
    reader = _Reader()
    for at, line in enumerate(file, start=1):
        if reader.live and not line.endswith("\n"):
            break  # whoever wrote it was ended in the middle of this line
        try:
            reader.take(at, _item(at, line))
        except PartError as error:
            msg = f"line {at}: {error}"
            raise CaptureFileError(msg) from error
    return reader.result()


def _item(at: int, line: str) -> Any:
    try:
        return loads_flat(line)
    except json.JSONDecodeError as error:
        msg = f"line {at}, column {error.colno}: no JSON: {error.msg.lower()}"
        raise CaptureFileError(msg) from error
    except ValueError as error:
        msg = f"line {at}: no JSON of a capture: {error}"
        raise CaptureFileError(msg) from error


class _Reader:
    def __init__(self) -> None:
        self._capture: Capture | None = None
        self._story: Story | None = None
        self._stories: list[Story] = []
        self._frames: list[Frame] = []
        self._events: list[dict[str, Any]] = []
        self._complete = False
        self.live = False

    def take(self, at: int, item: Any) -> None:
        if not isinstance(item, dict):
            msg = f"line {at}: not an object"
            raise CaptureFileError(msg)
        if self._capture is None:
            self._capture = _header(item)
            self.live = item.get(LIVE_KEY) is True
        elif self._complete:
            msg = f"line {at}: behind the end"
            raise CaptureFileError(msg)
        elif "complete" in item:
            self._finish(at, item)
        elif "story" in item:
            self._begin(at, item)
        elif self._story is None:
            msg = f"line {at}: belongs to no story"
            raise CaptureFileError(msg)
        elif "end" in item:
            self._end(at, item, self._story)
        elif "frames" in item:
            self._frames.append(_frame(item))
        elif "event" in item:
            part(item, "event", str)
            part(item, "fields", dict)
            self._events.append(item)
        else:
            msg = f"line {at}: neither a message ('frames') nor an event ('event')"
            raise CaptureFileError(msg)

    def _begin(self, at: int, item: dict[str, Any]) -> None:
        if self._story is not None:
            msg = f"line {at}: story {self._story.id!r} has no end"
            raise CaptureFileError(msg)
        status = word(item, "status", (PLAYED, SKIPPED, FAILED))
        name, title = part(item, "story", str), part(item, "title", str)
        reason, release = part(item, "reason", str), part(item, "release", str)
        self._story = Story(name, title, status, reason, release)

    def _end(self, at: int, item: dict[str, Any], story: Story) -> None:
        counts = (len(self._frames), len(self._events))
        wanted = (part(item, "end", str), number(item, "frames"), number(item, "events"))
        if wanted != (story.id, *counts):
            msg = (
                f"line {at}: story {story.id!r} is not whole: {counts[0]} messages and "
                f"{counts[1]} events stand here, its end says {wanted[1]} and {wanted[2]}"
            )
            raise CaptureFileError(msg)
        if self.live and not story.release and "release" in item:
            # It was not known at the beginning.
            story = replace(story, release=part(item, "release", str))
        self._keep(story)

    def _keep(self, story: Story) -> None:
        frames, events = tuple(self._frames), tuple(self._events)
        self._stories.append(replace(story, frames=frames, events=events))
        self._story, self._frames, self._events = None, [], []

    def _finish(self, at: int, item: dict[str, Any]) -> None:
        if self._story is not None or number(item, "stories") != len(self._stories):
            msg = f"line {at}: the file is not whole"
            raise CaptureFileError(msg)
        self._complete = True

    def result(self) -> Capture:
        if self._capture is None:
            msg = "it is empty"
            raise CaptureFileError(msg)
        if not self._complete and not self.live:
            msg = "it was cut off: the last line is missing"
            raise CaptureFileError(msg)
        notes = self._capture.notes
        if not self._complete:
            messages = len(self._frames)
            if self._story is not None:
                self._keep(self._story)
            notes = (*notes, f"it has no end: {messages} messages of the last story are there")
        return replace(self._capture, notes=notes, stories=tuple(self._stories))


def _header(item: dict[str, Any]) -> Capture:
    if HEADER_KEY not in item:
        msg = "line 1: this is no capture"
        raise CaptureFileError(msg)
    version = item[HEADER_KEY]
    if version != FORMAT_VERSION:
        msg = f"line 1: capture format {version!r}; this version reads format {FORMAT_VERSION}"
        raise CaptureFileError(msg)
    tool, target = part(item, "tool", str), part(item, "target", str)
    return Capture(tool, target, part(item, "version", str), texts(item, "notes"), ())


def _frame(item: dict[str, Any]) -> Frame:
    direction = word(item, "direction", (TO_ENGINE, FROM_ENGINE))
    return Frame(
        n=number(item, "n"),
        time_us=number(item, "time_us"),
        engine=number(item, "engine", ENGINE_MAX, least=UNKNOWN_ENGINE),
        socket=word(item, "socket", SOCKETS),
        direction=TO_ENGINE if direction == TO_ENGINE else FROM_ENGINE,
        frames=frames(item),
    )
