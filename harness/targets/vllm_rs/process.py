"""Runs the binary: its own session, dies with us, log lines as events, bounded stop.

The process must not outlive us even when we are killed; ``harness.targets.vllm_rs.starter`` says
how. A program that starts the real binary and stays (a shell script without ``exec``) leads a
group, and every end of ours goes to the whole group, and to what left it
(``harness.targets.vllm_rs.family``); only when *we* are killed it is the leader alone that the
kernel ends. The process has ended when its leader has: what it left behind is ended, not waited for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from client.aio import DeadlineExceeded, all_done, cancel_and_wait, resolve, with_deadline
from harness.targets.base import Emit, StartFailed, TargetError
from harness.targets.vllm_rs import starter
from harness.targets.vllm_rs.family import Family
from harness.targets.vllm_rs.log_patterns import parse_line, patterns_of, strip_colours
from harness.targets.vllm_rs.releases import NEWEST
from harness.trace.events import LogLine, ProcessExited
from mock_engines.spawn import is_stopped

_READ_BYTES = 1 << 16
_TAIL_LINES = 40
TERM_TIMEOUT_S = 5.0
"""How long SIGTERM may take before SIGKILL; measured: 2 to 21 ms, plus the drain time."""
KILL_TIMEOUT_S = 5.0
_LAST_WORDS_S = 0.5
"""How long the output may stay open behind the end: longer only if somebody left holds it."""
_LINE_MAX = 1 << 20
"""Bytes after which what has no end of line is taken for one."""

OnLine = Callable[[LogLine], None]


class FrontendProcess:
    """One running binary. ``on_line`` sees each log line after it was emitted."""

    def __init__(self, emit: Emit, on_line: OnLine, release: str = NEWEST) -> None:
        """Make a process that is not started yet; ``release``: whose log it writes."""
        self._emit = emit
        self._on_line = on_line
        self._patterns = patterns_of(release)
        self._process: asyncio.subprocess.Process | None = None
        self._exited: asyncio.Future[int] | None = None
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._watcher: asyncio.Task[None] | None = None
        self._group_gone = False
        self._killed_by_us = False
        self._stopped_by_us = False
        self._family = Family()
        self._outputs: list[asyncio.ReadTransport] = []
        self._lines = 0

    async def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        inherited: Sequence[int] = (),
        nice: int = 0,
    ) -> None:
        """Start ``command``.

        ``inherited``: descriptors that it gets, with their numbers; ``nice``: how much its
        priority is lowered.

        Raises:
            StartFailed: it cannot be executed.
            TargetError: this is not the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            msg = "the frontend must be started from the main thread: it ends with its starter"
            raise TargetError(msg)
        loop = asyncio.get_running_loop()
        streams, theirs = [], []
        try:
            for _ in ("stdout", "stderr"):
                ours, end = os.pipe()
                theirs.append(end)
                streams.append(await self._open(ours))
            self._family.begin()
            self._process = await asyncio.create_subprocess_exec(
                *starter.dying_with_us(command, nice=nice),
                stdin=asyncio.subprocess.DEVNULL,
                # Pipes of our own: asyncio's process has not ended before its pipes have.
                stdout=theirs[0],
                stderr=theirs[1],
                env={**environment, **self._family.environment},
                pass_fds=tuple(inherited),
                start_new_session=True,
            )
        except OSError as error:
            for output in self._outputs:
                output.close()
            msg = f"cannot start {command[0]}: {error.strerror or error}"
            raise StartFailed(msg) from error
        finally:
            for end in theirs:
                os.close(end)
        self._exited = loop.create_future()
        self._watcher = loop.create_task(self._watch(streams), name="frontend process")

    async def _open(self, descriptor: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        pipe = os.fdopen(descriptor, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._outputs.append(transport)
        return reader

    @property
    def pid(self) -> int | None:
        """Process id, ``None`` before the start."""
        return self._process.pid if self._process is not None else None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; ``None`` while it runs."""
        if self._exited is None or not self._exited.done():
            return None
        return self._exited.result()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._exited is not None and not self._exited.done()

    @property
    def stands_still(self) -> bool:
        """Whether somebody else stopped it."""
        pid = self.pid
        return pid is not None and self.running and not self._stopped_by_us and is_stopped(pid)

    @property
    def killed_from_outside(self) -> bool:
        """Whether SIGKILL ended it and we sent none."""
        return self.exit_code == -signal.SIGKILL and not self._killed_by_us

    @property
    def lines(self) -> int:
        """How many lines in the form of a frontend's log it wrote."""
        return self._lines

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of its output, oldest first, without colours."""
        return tuple(self._tail)

    async def exited(self) -> int:
        """Wait for the end and return the exit code. Cancelling the wait changes nothing."""
        if self._exited is None:
            msg = "the frontend was not started"
            raise TargetError(msg)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_exited: object) -> None:
            resolve(ended)

        self._exited.add_done_callback(wake)
        try:
            await ended
        finally:
            self._exited.remove_done_callback(wake)
        return self._exited.result()

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; one of which nobody is left is never named again."""
        if self._process is None or self._group_gone:
            return
        if number == signal.SIGKILL and self._process.returncode is None:
            self._killed_by_us = True
        elif number in (signal.SIGSTOP, signal.SIGCONT):
            self._stopped_by_us = number == signal.SIGSTOP
        alive = starter.signal_group(self._process.pid, number)
        # While the leader is not reaped, its number is taken whatever the answer was.
        self._group_gone = not alive and self._process.returncode is not None

    async def terminate(self, timeout_s: float = TERM_TIMEOUT_S) -> int | None:
        """End it: SIGTERM, then SIGKILL, each to its whole group; return the exit code.

        Never raises for a process that resists: ``None`` then, and the kernel keeps the
        request to kill it with us.
        """
        if self._process is None:
            return None
        try:
            if self.running:
                self.signal(signal.SIGTERM)
                # One that was stopped takes no other signal before it goes on.
                self.signal(signal.SIGCONT)
                with suppress(DeadlineExceeded):
                    return await with_deadline(self.exited(), timeout_s, name="frontend: SIGTERM")
        finally:
            # The leader may have left others behind.
            self.kill()
        with suppress(DeadlineExceeded):
            return await with_deadline(self.exited(), KILL_TIMEOUT_S, name="frontend: SIGKILL")
        return None

    def kill(self) -> None:
        """SIGKILL to the whole group, at once and without waiting."""
        self.signal(signal.SIGKILL)

    async def _watch(self, streams: Sequence[asyncio.StreamReader]) -> None:
        process, exited = self._process, self._exited
        assert process is not None
        assert exited is not None
        loop = asyncio.get_running_loop()
        readers = [loop.create_task(self._read(one), name="frontend output") for one in streams]
        try:
            code = await process.wait()
            # The outputs end with the process, unless it left somebody behind who holds them.
            if not await _done(readers, _LAST_WORDS_S):
                self._end_family()
                await _done(readers, KILL_TIMEOUT_S)
        finally:
            self._end_family()
            await cancel_and_wait([reader for reader in readers if not reader.done()])
            for output in self._outputs:
                output.close()
        self._emit(ProcessExited(code))
        exited.set_result(code)

    def _end_family(self) -> None:
        assert self._process is not None
        self.kill()
        self._family.end(self._process.pid)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        """Split by lines ourselves: ``readline`` gives up on very long ones."""
        rest = b""
        while block := await stream.read(_READ_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._take(line)
            if len(rest) > _LINE_MAX:
                self._take(rest)
                rest = b""
        if rest:
            self._take(rest)

    def _take(self, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace")
        self._tail.append(strip_colours(text)[:2000])
        line = parse_line(text, self._patterns)
        self._lines += bool(line.level)
        self._emit(line)
        self._on_line(line)


async def _done(tasks: Sequence[asyncio.Task[None]], timeout_s: float) -> bool:
    """Whether tasks end in time; they go on if not."""
    with suppress(DeadlineExceeded):
        await with_deadline(all_done(tasks), timeout_s, name="frontend: end of the log")
    return all(task.done() for task in tasks)
