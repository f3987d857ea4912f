"""What the log of a frontend tells about its inside, as the events that the reference client has.

So a scenario waits for one event on every target: a publish of an external coordinator that was
taken over, a first request that was reported, a fatal error.
"""

from __future__ import annotations

import asyncio

from client.aio import resolve
from client.events import CoordinatorStateApplied, FirstRequestQueued, HealthFailed
from harness.targets.base import Emit
from harness.targets.vllm_rs.client_errors import classify
from harness.targets.vllm_rs.log_patterns import field
from harness.trace.events import LogLine

_FATAL_LINES = frozenset({"dispatcher-failed", "coordinator-failed", "external-failed"})


class LogEvents:
    """Takes log lines in order.

    Attributes:
        fatal: text of the first fatal error, ``None`` before it.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.fatal: str | None = None
        self._watchers: list[asyncio.Future[None]] = []

    def take(self, line: LogLine) -> None:
        """Take one line that was emitted already."""
        if line.pattern in _FATAL_LINES:
            self._failed(line)
        elif line.pattern == "external-update":
            wave, running = field(line, "wave"), field(line, "engines_running")
            if wave is not None and running is not None:
                self._emit(CoordinatorStateApplied(int(wave), running == "true"))
        elif line.pattern == "external-first-request":
            wave, engine = field(line, "wave"), field(line, "exclude_engine_index")
            if wave is not None and engine is not None:
                self._emit(FirstRequestQueued(int(engine), int(wave)))

    def _failed(self, line: LogLine) -> None:
        message = field(line, "error") or line.text
        first = self.fatal is None
        self._emit(HealthFailed(classify(message) or "unknown", message, first))
        if first:
            self.fatal = message
            for watcher in self._watchers:
                resolve(watcher)
            self._watchers.clear()

    async def failed(self) -> None:
        """Return once the log names a fatal error; it may lag behind what else shows it."""
        if self.fatal is None:
            seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(seen)
            await seen
