"""Writes messages down in the moment in which they pass: a capture that grows at its end only.

The file is one of ``docs/capture.md`` whose header says that it is live: a reader takes it as far
as it goes, so that nothing is lost when the recorder is ended by force.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.capture.file import FORMAT_VERSION, HEADER_KEY, LIVE_KEY, frame_line
from harness.capture.recording import Direction, Frame
from harness.capture.take import PLAYED
from harness.recording.redaction import Redaction
from harness.recording.release import ReleaseGuess
from harness.version import tool_version

STORY = "record/session"
TITLE = "A recorded session"
TARGET = "recorded"


class Sink:
    """Takes each message as it passes.

    Args:
        path: the file; it must not exist.
        guess: what is known of the release; told of every message.
        redaction: replaces what may be private before it is written; ``None``: nothing is.
        notes: what the header says about the recording.
        told: called after each message, with it.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(
        self,
        path: Path,
        guess: ReleaseGuess,
        redaction: Redaction | None = None,
        *,
        notes: Sequence[str] = (),
        told: Callable[[Frame], None] = lambda _frame: None,
    ) -> None:
        self._path = path
        self._guess = guess
        self._redaction = redaction
        self._told = told
        self._start: int | None = None
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self.messages = 0
        self._sides: set[Direction] = set()
        self.failure: OSError | None = None
        self._write(
            {
                HEADER_KEY: FORMAT_VERSION,
                LIVE_KEY: True,
                "tool": tool_version(),
                "target": TARGET,
                "version": guess.said or "session",
                "notes": list(notes),
            }
        )
        self._write(
            {
                "story": STORY,
                "title": TITLE,
                "status": PLAYED,
                "reason": "",
                "release": guess.said or "",
            }
        )

    def take(self, engine: int, socket: str, direction: Direction, frames: Sequence[bytes]) -> None:
        """Write one message down.

        Args:
            engine: global rank; -1 where it cannot be told.
            socket: one of ``harness.capture.recording.SOCKETS``.
            direction: who sends it.
            frames: without identity.
        """
        time_us = round(asyncio.get_running_loop().time() * 1_000_000)
        self._start = time_us if self._start is None else self._start
        copies = tuple(bytes(frame) for frame in frames)
        frame = Frame(self.messages, time_us - self._start, engine, socket, direction, copies)
        self._guess.take(frame)
        if self._redaction is not None:
            frame = self._redaction.of(frame)
        self.messages += 1
        self._sides.add(frame.direction)
        self._write(frame_line(frame))
        self._told(frame)

    @property
    def one_sided(self) -> bool:
        """Whether nobody was answered: engines or a frontend spoke, and not both."""
        return len(self._sides) < 2

    def _write(self, line: dict[str, Any]) -> None:
        """Append one line, whole. A disk that is full must not stop what passes through us."""
        if self._file < 0 or self.failure is not None:
            return
        data = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self.failure = OSError(error.errno, error.strerror, str(self._path))

    def close(self) -> None:
        """Write the end. Idempotent."""
        if self._file < 0:
            return
        release = self._guess.release
        self._write({"end": STORY, "frames": self.messages, "events": 0, "release": release})
        self._write({"complete": True, "stories": 1})
        os.close(self._file)
        self._file = -1
