"""The process of an adapter: its pipes, the lines in them, and how it ends.

A process can outlive a run, so its pipes belong to no loop: each run *attaches* them to its own.
Reading never waits, and ``catch_up`` reads at once what was written until now, which is how
events of the adapter and of our engines come in an order that could have been (docs/adapter.md,
"Order").

Whatever goes wrong with the process or its lines becomes one ``TargetError`` that names the
adapter, the line, and its last words; the process is not used again.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
import signal
import struct
import subprocess
import termios
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from harness.shortened import shortened
from harness.targets.adapter.agreed import LINE_BYTES_MAX
from harness.targets.adapter.lines import BrokenLine, Command, Line
from harness.targets.adapter.parsing import LineError, parse, shown, to_bytes
from harness.targets.adapter.transcript import Transcript
from harness.targets.base import TargetError
from harness.targets.vllm_rs import starter

READ_BYTES = 1 << 16
"""Most that one look at a pipe takes, so that a flood starves nobody."""
LINES_MAX = 1_000_000
"""Most lines of one run; more is a flood, not a story."""
STDERR_LINES = 40
STDERR_SHOWN = 12
END_S = 5.0
"""How long a process may take to end once its input ended, seconds."""
REAP_S = 0.5
"""How long the exit code of a process whose output ended may be awaited, seconds."""

HOLD_TURNS = 5
"""Turns of the loop for which lines wait behind one that answers somebody (see ``OnLine``)."""
POLL_S = 0.02
"""Between two looks at a process that is ending, seconds."""

OnLine = Callable[[Line], bool]
"""Takes a line; returns whether it answers somebody, who should run before the next line counts.

Only ``catch_up`` goes past such a line: that an engine saw a message after the adapter spoke of
it matters more than that a caller ran in between, which no caller can rely on.
"""
OnFailure = Callable[[TargetError], None]


class AdapterProcess:
    """One process that runs an adapter. ``start`` it, ``attach`` it, ``send`` to it, ``close`` it.

    Attributes:
        failure: what went wrong with it, ``None`` while nothing did.
        killed: somebody else killed it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Make a process that is not started yet; ``command[0]`` is an absolute path."""
        self._command = tuple(command)
        self._environment = dict(environment)
        self._popen: subprocess.Popen[bytes] | None = None
        self._stdin = self._stdout = self._stderr = -1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_line: OnLine = _no_line
        self._on_failure: OnFailure = _no_failure
        self._rest = bytearray()
        self._queue: deque[bytes] = deque()
        self._held = 0
        self._unsent: deque[memoryview] = deque()
        self._last_words: deque[str] = deque(maxlen=STDERR_LINES)
        self._half_word = b""
        self._lines = 0
        self._dispatching = False
        self._transcript = Transcript()
        self.failure: TargetError | None = None
        self.killed = False

    def start(self) -> None:
        """Start it, in a session of its own; it is killed when we end.

        Raises:
            TargetError: it cannot be executed, or this is not the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            msg = "an adapter must be started from the main thread: it ends with its starter"
            raise TargetError(msg)
        try:
            self._popen = subprocess.Popen(
                starter.dying_with_us(self._command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            msg = f"cannot start the adapter {self._command[0]}: {error}"
            raise TargetError(msg) from error
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._stdin, self._stdout, self._stderr = pipes = (
            self._popen.stdin.fileno(),
            self._popen.stdout.fileno(),
            self._popen.stderr.fileno(),
        )
        for pipe in pipes:
            os.set_blocking(pipe, False)

    @property
    def pid(self) -> int | None:
        """Process id, ``None`` before the start and after the end."""
        return None if self._popen is None else self._popen.pid

    # --- a run ------------------------------------------------------------------------------

    def attach(self, on_line: OnLine, on_failure: OnFailure) -> None:
        """Let the running loop serve the pipes; ``on_failure`` is called at most once."""
        self._loop = asyncio.get_running_loop()
        self._on_line, self._on_failure = on_line, on_failure
        self._lines = 0
        self._loop.add_reader(self._stdout, self._read)
        self._loop.add_reader(self._stderr, self._read_stderr)

    def detach(self) -> None:
        """Take the pipes off the loop again. Idempotent."""
        if self._loop is None:
            return
        if self._popen is not None:
            self._loop.remove_reader(self._stdout)
            self._loop.remove_reader(self._stderr)
            self._loop.remove_writer(self._stdin)
        self._loop = None
        self._on_line, self._on_failure = _no_line, _no_failure
        self._held = 0

    def send(self, command: Command) -> None:
        """Write a command; what the pipe does not take now follows later, in order."""
        if self.failure is not None or self._popen is None:
            return
        raw = to_bytes(command)
        self._transcript.wrote(raw)
        self._unsent.append(memoryview(raw))
        if len(self._unsent) == 1:
            self._write()

    def _write(self) -> None:
        assert self._loop is not None
        stdin = self._stdin
        while self._unsent:
            first = self._unsent[0]
            try:
                written = os.write(stdin, first)
            except BlockingIOError:
                self._loop.add_writer(stdin, self._write)
                return
            except OSError:
                # Nobody reads. Why, the output says: it ends, or no answer comes.
                self._unsent.clear()
                break
            if written < len(first):
                self._unsent[0] = first[written:]
            else:
                self._unsent.popleft()
        self._loop.remove_writer(stdin)

    def catch_up(self) -> None:
        """Take every line that was written until now. Does nothing while a line is being taken."""
        if self._loop is None or self.failure is not None or self._dispatching:
            return
        left = _readable(self._stdout)
        while left > 0 and (block := self._block(self._stdout, min(left, READ_BYTES))):
            left -= len(block)
            self._split(block)
        self._take(past_holds=True)

    def _read(self) -> None:
        block = self._block(self._stdout, READ_BYTES)
        if block is None:
            return
        if block:
            self._split(block)
            self._take()
        else:
            self._take(past_holds=True)
            self._ended()

    @staticmethod
    def _block(pipe: int, size: int) -> bytes | None:
        """What is there, ``b""`` at the end, ``None`` if there is nothing now."""
        try:
            return os.read(pipe, size)
        except BlockingIOError:
            return None

    def _split(self, block: bytes) -> None:
        first, newline, others = block.partition(b"\n")
        self._rest += first
        if newline:
            *lines, rest = others.split(b"\n")
            self._queue.extend([bytes(self._rest), *lines])
            self._rest = bytearray(rest)
        if len(self._rest) > LINE_BYTES_MAX:
            self.fail(f"wrote a line of more than {LINE_BYTES_MAX} bytes", bytes(self._rest[:400]))

    def _take(self, *, past_holds: bool = False) -> None:
        self._dispatching = True
        try:
            while self._queue and self.failure is None and (past_holds or not self._held):
                if self._take_line(self._queue.popleft()) and self._loop is not None:
                    self._held = HOLD_TURNS
                    self._loop.call_soon(self._turn)
        finally:
            self._dispatching = False

    def _turn(self) -> None:
        if self._loop is None or not self._held:
            return
        self._held -= 1
        if self._held:
            self._loop.call_soon(self._turn)
        else:
            self._take()

    def _take_line(self, raw: bytes) -> bool:
        self._transcript.read(raw)
        self._lines += 1
        if self._lines > LINES_MAX:
            self.fail(f"wrote more than {LINES_MAX} lines in one run", raw)
            return False
        try:
            line = parse(raw)
            if not isinstance(line, BrokenLine):
                return self._on_line(line)
            self.fail(f"says that it is broken: {shortened(line.message)}")
        except LineError as error:
            self.fail(f"wrote a line that is none of the protocol's: {error}", raw)
        return False

    # --- standard error ---------------------------------------------------------------------

    def _read_stderr(self) -> None:
        block = self._block(self._stderr, READ_BYTES)
        if block == b"" and self._loop is not None:
            self._loop.remove_reader(self._stderr)
        if block:
            self._keep_words(block)

    def _keep_words(self, block: bytes) -> None:
        *lines, half = (self._half_word + block).split(b"\n")
        self._half_word = half[-READ_BYTES:]
        self._last_words.extend(shown(line) for line in lines if line.strip())

    def _all_words(self) -> list[str]:
        """What it wrote last, with what is still in the pipe (a pipe holds no flood)."""
        if self._popen is not None:
            left = _readable(self._stderr)
            while left > 0 and (block := self._block(self._stderr, READ_BYTES)):
                left -= len(block)
                self._keep_words(block)
        half = [shown(self._half_word)] if self._half_word.strip() else []
        return [*self._last_words, *half][-STDERR_SHOWN:]

    # --- the end ----------------------------------------------------------------------------

    def _ended(self) -> None:
        popen = self._popen
        assert popen is not None
        with suppress(subprocess.TimeoutExpired):
            # It is over, or closed its output and lives: which one, a moment shows.
            popen.wait(REAP_S)
        code = popen.returncode
        self.killed = code == -signal.SIGKILL and self.failure is None
        rest = bytes(self._rest)
        if code is None:
            self.fail("closed its standard output", rest)
        else:
            self.fail(f"ended unasked ({_how(code)})", rest)

    def fail(self, what: str, line: bytes | None = None) -> None:
        """Give it up because of a fault of its own; kills it. Only the first fault counts.

        Args:
            what: goes on from its name, as in "wrote …".
            line: what it wrote, if that is the fault.
        """
        if self.failure is not None:
            return
        parts = [f"the adapter {what}", f"  command: {shlex.join(self._command)}"]
        if line:
            parts.append(f"  line:    {shown(line)}")
        words = self._all_words()
        parts += ["  its last words on standard error:", *(f"    {word}" for word in words)]
        self.failure = TargetError("\n".join(parts if words else parts[:-1]))
        self._signal(signal.SIGKILL)
        tell = self._on_failure
        if self._loop is not None:
            self.detach()
        tell(self.failure)

    def out_of_turn(self) -> bytes | None:
        """What it wrote while no run was attached; ``b""`` if it ended, ``None`` if it is ready."""
        found = b"\n".join([*self._queue, bytes(self._rest)])
        while block := self._block(self._stdout, READ_BYTES):
            found += block
            if len(found) > READ_BYTES:
                return found
        return found if found or block == b"" else None

    def close(self, *, patient: bool = True) -> bool:
        """End it: its input ends, then SIGKILL to its whole group. Idempotent.

        Args:
            patient: give it ``END_S`` to end by itself.

        Returns:
            Whether it ended by itself, in time.
        """
        popen = self._popen
        if popen is None:
            return True
        self.detach()
        try:
            assert popen.stdin is not None
            popen.stdin.close()
            if patient and self.failure is None:
                self._await_end(popen)
            by_itself = popen.returncode is not None
        finally:
            self._signal(signal.SIGKILL)
            popen.wait()
            for pipe in (popen.stdout, popen.stderr):
                assert pipe is not None
                pipe.close()
            self._popen = None
            self._transcript.close()
        return by_itself

    def _await_end(self, popen: subprocess.Popen[bytes]) -> None:
        """Wait for up to ``END_S``; meanwhile nothing that it writes may hold it up."""
        for _ in range(round(END_S / POLL_S)):
            with suppress(subprocess.TimeoutExpired):
                popen.wait(POLL_S)
                return
            self._block(self._stdout, READ_BYTES)
            self._read_stderr()

    def _signal(self, number: int) -> None:
        if self._popen is not None:
            starter.signal_group(self._popen.pid, number)


def _no_line(_line: Line) -> bool:
    """Stands for whoever listens while no run is attached."""
    return False


def _no_failure(_error: TargetError) -> None:
    """Stands for whoever listens while no run is attached."""


def _readable(pipe: int) -> int:
    """How many bytes are in a pipe now."""
    found: tuple[int] = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return found[0]


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
