"""The pipe of a child process: one JSON object a line, on its standard input and output.

Runs in child processes only. They are single-threaded as far as the pipe is concerned, and end
when their parent closes it.
"""

from __future__ import annotations

import json
import os
from collections import deque
from typing import Any

_READ_BYTES = 1 << 16


class Pipe:
    """Both directions. Whatever else writes to standard output goes to standard error."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)
        self._rest = b""
        self._lines: deque[dict[str, Any]] = deque()

    @property
    def fd(self) -> int:
        """Readable when the parent has written, or has closed its end."""
        return 0

    @property
    def waiting(self) -> bool:
        """Whether a line was read already that nobody took."""
        return bool(self._lines)

    def say(self, **values: Any) -> None:
        """Write one line."""
        data = json.dumps(values, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[os.write(self._out, data) :]

    def hear(self) -> dict[str, Any]:
        """Wait for the next line.

        Raises:
            SystemExit: the parent is gone.
        """
        while not self._lines:
            self.fill()
        return self._lines.popleft()

    def fill(self) -> None:
        """Read what is there, or wait for something.

        Raises:
            SystemExit: the parent is gone.
        """
        block = os.read(self.fd, _READ_BYTES)
        if not block:
            raise SystemExit(0)
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._lines.extend(json.loads(line) for line in lines)

    def wait_for(self, key: str) -> dict[str, Any]:
        """Wait for the next line that has ``key``; others keep their order and their turn."""
        kept: deque[dict[str, Any]] = deque()
        while True:
            line = self.hear()
            if key in line:
                self._lines.extendleft(reversed(kept))
                return line
            kept.append(line)
