"""Starts the process of one engine, and the pipe to it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from mock_engines.control import LINE_BYTES_MAX, ChildControl, Control

IMPORT_ROOT = str(Path(__file__).resolve().parent.parent)
"""A child must find the package that its parent uses, however that was found."""


class ChildProcess:
    """A process that runs ``mock_engines.child_entry``, and what can be done to it from outside."""

    def __init__(self, process: asyncio.subprocess.Process, taken: int) -> None:
        """``taken``: descriptor on which the child hears that an event of it was taken."""
        self._process = process
        self._halted = False
        self._taken = taken
        self._killed = False

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
        self._killed = self._signal(signal.SIGKILL) or self._killed

    def make_sure(self) -> None:
        """Kill one that is ending, whoever ended it."""
        self._signal(signal.SIGKILL)

    @property
    def stands_still(self) -> bool:
        """Whether somebody else stopped it (Linux; elsewhere that cannot be told)."""
        return self.exit_code is None and not self._halted and is_stopped(self.pid)

    @property
    def killed_from_outside(self) -> bool:
        """Whether SIGKILL ended it, and not ours; one that vanishes sends it to itself."""
        return self.exit_code == -signal.SIGKILL and not self._killed

    def event_taken(self) -> None:
        """Let the child go on after an event; one that is gone needs no leave."""
        if self._taken < 0:
            return  # it was reaped; what it had said before is still read
        with suppress(BrokenPipeError):
            os.write(self._taken, b"\n")

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
        try:
            return await self._process.wait()
        finally:
            if self._taken >= 0:
                os.close(self._taken)
                self._taken = -1


def is_stopped(pid: int) -> bool:
    """Whether a process stands still by a signal, as far as the system tells (proc(5))."""
    try:
        behind = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return behind.rpartition(")")[2].split()[:1] == ["T"]


async def spawn() -> tuple[ChildProcess, socket.socket]:
    """Start a process; returns it with our end of the pipe, still to be opened."""
    ours, theirs = socket.socketpair()
    heard, taken = os.pipe()
    roots = (IMPORT_ROOT, os.environ.get("PYTHONPATH"))
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mock_engines.child_entry"),
            *(str(theirs.fileno()), str(heard), str(os.getpid())),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), heard],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(root for root in roots if root)},
        )
    except BaseException:
        ours.close()
        os.close(taken)
        raise
    finally:
        theirs.close()
        os.close(heard)
    return ChildProcess(process, taken), ours


async def open_control(pipe: socket.socket) -> Control:
    """Open the parent's end of the pipe."""
    return Control(*await asyncio.open_connection(sock=pipe, limit=LINE_BYTES_MAX))


async def open_child_control(pipe: socket.socket, taken: int) -> ChildControl:
    """Open the child's end; ``taken`` is the descriptor that says that an event was taken."""
    reader, writer = await asyncio.open_connection(sock=pipe, limit=LINE_BYTES_MAX)
    return ChildControl(reader, writer, pipe, taken)
