"""A capture as a file: JSON, one object a line, described in ``docs/capture.md``.

Line 1 is the header, then for each story a ``story`` line, its messages, its trace and an ``end``
line; the last line says how many stories there are, so that a file that was cut off is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from harness.capture.recording import FROM_ENGINE, SOCKETS, TO_ENGINE, Frame
from harness.capture.take import FAILED, PLAYED, SKIPPED, Capture, Story

FORMAT_VERSION = 1
HEADER_KEY = "wavecheck_capture"


class CaptureFileError(ValueError):
    """A capture file cannot be read; the message says where and why."""


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
            yield {
                "n": frame.n,
                "time_us": frame.time_us,
                "engine": frame.engine,
                "socket": frame.socket,
                "direction": frame.direction,
                "frames": [part.hex() for part in frame.frames],
            }
        yield from story.events
        yield {"end": story.id, "frames": len(story.frames), "events": len(story.events)}
    yield {"complete": True, "stories": len(capture.stories)}


def write(capture: Capture, file: IO[str]) -> None:
    """Write a capture."""
    for line in lines_of(capture):
        file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


# --- read -----------------------------------------------------------------------------------


def is_capture(first_line: str) -> bool:
    """Whether a file that begins with this line means to be a capture."""
    try:
        head = json.loads(first_line)
    except ValueError:
        return False
    return isinstance(head, dict) and HEADER_KEY in head


def read_file(path: Path) -> Capture:
    """Read a capture file.

    Raises:
        CaptureFileError: it cannot be read, is no capture, of another format, or cut off.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return read(file)
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
    for number, line in enumerate(file, start=1):
        try:
            reader.take(number, json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, CaptureFileError):
                raise
            what = f"no key {error}" if isinstance(error, KeyError) else str(error)
            msg = f"line {number}: {what}"
            raise CaptureFileError(msg) from error
    return reader.result()


class _Reader:
    def __init__(self) -> None:
        self._capture: Capture | None = None
        self._story: Story | None = None
        self._stories: list[Story] = []
        self._frames: list[Frame] = []
        self._events: list[dict[str, Any]] = []
        self._complete = False

    def take(self, number: int, item: Any) -> None:
        if not isinstance(item, dict):
            msg = f"line {number}: not an object"
            raise CaptureFileError(msg)
        if self._capture is None:
            self._capture = _header(item)
        elif self._complete:
            msg = f"line {number}: behind the end"
            raise CaptureFileError(msg)
        elif "complete" in item:
            self._finish(number, item)
        elif "story" in item:
            self._begin(number, item)
        elif self._story is None:
            msg = f"line {number}: belongs to no story"
            raise CaptureFileError(msg)
        elif "end" in item:
            self._end(number, item, self._story)
        elif "frames" in item:
            self._frames.append(_frame(item))
        elif isinstance(item["event"], str) and isinstance(item["fields"], dict):
            self._events.append(item)
        else:
            msg = f"line {number}: neither a message nor an event"
            raise CaptureFileError(msg)

    def _begin(self, number: int, item: dict[str, Any]) -> None:
        if self._story is not None:
            msg = f"line {number}: story {self._story.id!r} has no end"
            raise CaptureFileError(msg)
        if item["status"] not in (PLAYED, SKIPPED, FAILED):
            msg = f"line {number}: unknown status {item['status']!r}"
            raise CaptureFileError(msg)
        self._story = Story(
            item["story"], item["title"], item["status"], item["reason"], item["release"]
        )

    def _end(self, number: int, item: dict[str, Any], story: Story) -> None:
        counts = (len(self._frames), len(self._events))
        if (item["end"], item["frames"], item["events"]) != (story.id, *counts):
            msg = f"line {number}: story {story.id!r} is not whole"
            raise CaptureFileError(msg)
        frames, events = tuple(self._frames), tuple(self._events)
        self._stories.append(replace(story, frames=frames, events=events))
        self._story, self._frames, self._events = None, [], []

    def _finish(self, number: int, item: dict[str, Any]) -> None:
        if self._story is not None or item["stories"] != len(self._stories):
            msg = f"line {number}: the file is not whole"
            raise CaptureFileError(msg)
        self._complete = True

    def result(self) -> Capture:
        if self._capture is None:
            msg = "it is empty"
            raise CaptureFileError(msg)
        if not self._complete:
            msg = "it was cut off: the last line is missing"
            raise CaptureFileError(msg)
        return replace(self._capture, stories=tuple(self._stories))


def _header(item: dict[str, Any]) -> Capture:
    if HEADER_KEY not in item:
        msg = "line 1: this is no capture"
        raise CaptureFileError(msg)
    version = item[HEADER_KEY]
    if version != FORMAT_VERSION:
        msg = f"line 1: capture format {version!r}; this version reads format {FORMAT_VERSION}"
        raise CaptureFileError(msg)
    return Capture(item["tool"], item["target"], item["version"], tuple(item["notes"]), ())


def _frame(item: dict[str, Any]) -> Frame:
    direction, socket = item["direction"], item["socket"]
    if direction not in (TO_ENGINE, FROM_ENGINE) or socket not in SOCKETS:
        msg = f"unknown socket {socket!r} or direction {direction!r}"
        raise ValueError(msg)
    return Frame(
        n=item["n"],
        time_us=item["time_us"],
        engine=item["engine"],
        socket=socket,
        direction=direction,
        frames=tuple(bytes.fromhex(part) for part in item["frames"]),
    )
