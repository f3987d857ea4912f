"""The parent's side of a child process that talks in lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from client.aio import DeadlineExceeded, all_done, with_deadline
from harness.targets.base import TargetError
from harness.targets.vllm_rs import starter

IMPORT_ROOT = str(Path(__file__).resolve().parents[3])
"""A child must find the packages that its parent uses, however they were found."""
END_TIMEOUT_S = 5.0
_LINE_BYTES_MAX = 1 << 24
_TAIL_LINES = 20


def child_environment() -> dict[str, str]:
    """Our environment, and the folder that our packages come from."""
    roots = (IMPORT_ROOT, os.environ.get("PYTHONPATH"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(root for root in roots if root)}


OnLine = Callable[[dict[str, Any]], None]


class LineChild:
    """One child. ``on_line`` takes each of its lines; ``on_end`` is called when it has ended."""

    def __init__(self, module: str, on_line: OnLine, on_end: Callable[[], None]) -> None:
        self._module = module
        self._on_line = on_line
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return None if self._process is None else self._process.pid

    @property
    def tail(self) -> str:
        """The last lines of its standard error."""
        return "\n".join(self._tail)

    async def start(self, settings: Mapping[str, Any]) -> None:
        """Start it and give it its settings; it dies with us.

        Raises:
            TargetError: it cannot be started.
        """
        command = [sys.executable, "-P", "-m", self._module]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *starter.dying_with_us(command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=child_environment(),
                start_new_session=True,
                limit=_LINE_BYTES_MAX,
            )
        except OSError as error:
            msg = f"cannot start {self._module}: {error}"
            raise TargetError(msg) from error
        loop = asyncio.get_running_loop()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        reader = loop.create_task(self._read(self._process.stdout), name=f"{self._module} lines")
        errors = loop.create_task(self._keep(self._process.stderr), name=f"{self._module} errors")
        self._tasks = [reader, errors]
        self.say(**settings)

    def say(self, **values: Any) -> None:
        """Write one line. A child that is gone takes none, which its end tells."""
        if self._process is None or self._process.stdin is None:
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(json.dumps(values, separators=(",", ":")).encode() + b"\n")

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self._on_line(json.loads(line))
        assert self._process is not None
        await self._process.wait()
        self._on_end()

    async def _keep(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self._tail.append(line.decode("utf-8", "replace").rstrip())

    def kill(self) -> None:
        """End it, and whatever it started, at once and without a word."""
        if self._process is not None:
            starter.signal_group(self._process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        """Kill it and wait for its end. Idempotent.

        Raises:
            Exception: what reading its lines raised.
        """
        if self._process is None:
            return
        self.kill()
        try:
            await with_deadline(all_done(self._tasks), END_TIMEOUT_S, name=f"{self._module}: end")
        except DeadlineExceeded as error:
            msg = f"{self._module} (process {self._process.pid}) did not end when it was killed"
            raise TargetError(msg) from error
        finally:
            if self._process.stdin is not None:
                self._process.stdin.close()
            for task in self._tasks:
                task.cancel()
        tasks, self._tasks = self._tasks, []
        self._process = None
        for task in tasks:
            task.result()
