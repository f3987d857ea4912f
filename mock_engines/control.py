"""The pipe between a child process and its parent: one JSON object per line, each way.

Parent → child: ``config`` (first line), ``open`` (gate), ``act``, ``idle``, ``die``, ``wave``,
``notice``, ``stop``. Child → parent: ``event``, ``state``, ``joined``, ``init``, ``waves``
(input for the wave model), ``opened`` (gate), ``waiting`` (at a gate), ``failure``, ``done``,
``halt`` (stop my process until this gate opens). Requests with an ``id`` are answered by
``done`` with that id. One pipe keeps everything in order, so a ``done`` also says that all events
before it have arrived.

An event is taken before its cause goes on: the child waits until the parent has recorded it, which
a second pipe says, one byte for each. So a message of an engine is in the trace before it leaves,
here as for an engine in the parent's own process. Without that whoever the message reaches may be
heard first, and its answer stands in the trace before the question.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
from collections.abc import Mapping
from typing import Any

LINE_BYTES_MAX = 64 * 1024 * 1024
"""Longest line; a scripted reply can be large, an endless line is a fault."""

Line = Mapping[str, Any]


class Control:
    """One end of the pipe."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # So that ``drain`` returns only once everything is in the pipe.
        writer.transport.set_write_buffer_limits(high=0)

    def send(self, line: Line) -> None:
        """Queue one line; a peer that is gone shows when reading."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    async def flush(self) -> None:
        """Return once what was queued is in the pipe, or the peer is gone."""
        try:
            await self._writer.drain()
        except ConnectionError:
            return

    async def receive(self) -> dict[str, Any] | None:
        """Return the next line, ``None`` at the end of the pipe."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        # A line without its end is what a killed process left: it never counted.
        if not line.endswith(b"\n"):
            return None
        value: dict[str, Any] = json.loads(line)
        return value

    def close(self) -> None:
        """Close this end."""
        self._writer.close()


class ChildControl(Control):
    """The child's end: a line is in the pipe when ``send`` returns."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pipe: socket.socket,
        taken: int,
    ) -> None:
        """``taken``: descriptor on which the parent says that it has taken an event."""
        super().__init__(reader, writer)
        self._pipe = pipe
        self._taken = taken

    def send(self, line: Line) -> None:
        """Write one line; a peer that is gone shows when reading."""
        left = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        while left:
            try:
                left = left[self._pipe.send(left) :]
            except BlockingIOError:
                select.select([], [self._pipe], [])
            except OSError:
                return

    def send_event(self, line: Line) -> None:
        """Write one line and wait until the parent has taken it, or is gone."""
        self.send(line)
        os.read(self._taken, 1)
