"""Starts the process of one engine, and the pipe to it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from mock_engines.control import LINE_BYTES_MAX, Control

IMPORT_ROOT = str(Path(__file__).resolve().parent.parent)
"""A child must find the package that its parent uses, however that was found."""


class ChildProcess:
    """A process that runs ``mock_engines.child``, and what can be done to it from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._halted = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative = signal, ``None`` while it lives."""
        return self._process.returncode

    @property
    def halted(self) -> bool:
        """Whether it is stopped by SIGSTOP, so that only a kill ends it."""
        return self._halted

    def halt(self) -> None:
        """Stop all its threads where they are (SIGSTOP)."""
        self._halted = self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a halted process go on (SIGCONT)."""
        if self._halted:
            self._halted = False
            self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once (SIGKILL), halted or not."""
        self._signal(signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> bool:
        if self._process.returncode is not None:
            return False
        try:
            self._process.send_signal(signum)
        except ProcessLookupError:  # it ended just now
            return False
        return True

    async def wait(self) -> int:
        """Wait for its end and reap it."""
        return await self._process.wait()


async def spawn() -> tuple[ChildProcess, socket.socket]:
    """Start a process; returns it with our end of the pipe, still to be opened."""
    ours, theirs = socket.socketpair()
    roots = (IMPORT_ROOT, os.environ.get("PYTHONPATH"))
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mock_engines.child"),
            *(str(theirs.fileno()), str(os.getpid())),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(root for root in roots if root)},
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return ChildProcess(process), ours


async def open_control(pipe: socket.socket) -> Control:
    """Open one end of the pipe."""
    return Control(*await asyncio.open_connection(sock=pipe, limit=LINE_BYTES_MAX))
