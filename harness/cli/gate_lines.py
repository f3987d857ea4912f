"""Gates that the user opens by hand: each line on standard input is the name of one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from mock_engines.gates import Gates

_READ_BYTES = 4096


class GateLines:
    """Opens gates as standard input names them. Where there is none, nothing happens.

    Args:
        gates: those of the engines.
        say: shows a line to the user.
        descriptor: what to read; default: standard input.
    """

    def __init__(
        self, gates: Gates, say: Callable[[str], object], descriptor: int | None = None
    ) -> None:
        self._gates = gates
        self._say = say
        self._descriptor = descriptor
        self._rest = b""
        self._reading = False

    @property
    def reading(self) -> bool:
        """Whether lines are still taken."""
        return self._reading

    def start(self) -> None:
        """Begin to read, if there is something that can be read without blocking."""
        try:
            if self._descriptor is None:
                self._descriptor = sys.stdin.fileno()
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        except (AttributeError, OSError, ValueError, NotImplementedError):
            return  # closed, replaced, or a file: nobody types there
        self._reading = True

    def stop(self) -> None:
        """Read no more. Idempotent."""
        if self._reading and self._descriptor is not None:
            self._reading = False
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _read(self) -> None:
        assert self._descriptor is not None
        if _is_background(self._descriptor):
            # Reading a terminal from the background would stop this process.
            self.stop()
            return
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace").strip())
        if not data:
            self.stop()

    def _take(self, name: str) -> None:
        if not name:
            return
        waiting = self._gates.waiting(name)
        self._gates.open(name)
        if waiting:
            self._say(f"gate {name} is open ({waiting} waited)")
        else:
            others = ", ".join(self._gates.waited_for()) or "no other gate"
            self._say(f"gate {name} is open; nobody waited there (now waited for: {others})")


def _is_background(descriptor: int) -> bool:
    return os.isatty(descriptor) and os.tcgetpgrp(descriptor) != os.getpgrp()
