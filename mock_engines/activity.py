"""Which plans of an engine are under way, and which of them only wait.

An engine is *idle* when all that runs has ended or waits for something scripted: a gate, a
state, or for ever. A gate that opens counts its waiters as busy in that very moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mock_engines import aio
from mock_engines.gates import Gates

Holds = Callable[[], bool]


@dataclass(slots=True, eq=False)
class _Condition:
    holds: Holds
    future: asyncio.Future[None]
    task: asyncio.Task[Any] | None


@dataclass(slots=True, eq=False)
class Activity:
    """Bookkeeping of one engine. ``None`` stands for code outside any task."""

    gates: Gates
    _blocked: dict[asyncio.Task[Any] | None, bool] = field(default_factory=dict)
    _conditions: list[_Condition] = field(default_factory=list)
    _idlers: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        """Whether anything runs that waits for nothing scripted."""
        return not all(self._blocked.values())

    def begin(self, task: asyncio.Task[Any] | None) -> None:
        """A plan starts in this task."""
        self._blocked[task] = False

    def end(self, task: asyncio.Task[Any] | None) -> None:
        """The plan of this task is over."""
        self._blocked.pop(task, None)
        self._tell()

    async def hang(self, gate: str | None) -> None:
        """Wait for a gate; ``None`` = for ever."""
        task = asyncio.current_task()
        if gate is not None and self.gates.is_open(gate):
            return
        self._set(task, blocked=True)
        try:
            if gate is None:
                await aio.never()
            else:
                await self.gates.wait(gate, lambda: self._set(task, blocked=False))
        finally:
            self._set(task, blocked=False)

    async def until(self, holds: Holds) -> None:
        """Wait until a condition on the engine's state holds; at once if it does."""
        task = asyncio.current_task()
        while not holds():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            condition = _Condition(holds, future, task)
            self._conditions.append(condition)
            self._set(task, blocked=True)
            try:
                await future
            finally:
                if condition in self._conditions:
                    self._conditions.remove(condition)
                self._set(task, blocked=False)

    def changed(self) -> None:
        """The engine's state changed: release those whose condition holds now."""
        for condition in tuple(self._conditions):
            if condition.holds() and not condition.future.done():
                self._conditions.remove(condition)
                self._set(condition.task, blocked=False)
                condition.future.set_result(None)

    async def idle(self) -> None:
        """Return once nothing is busy."""
        while self.busy:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idlers.append(future)
            await future

    def _set(self, task: asyncio.Task[Any] | None, *, blocked: bool) -> None:
        if task in self._blocked:
            self._blocked[task] = blocked
            self._tell()

    def _tell(self) -> None:
        if self.busy:
            return
        idlers, self._idlers = self._idlers, []
        for idler in idlers:
            if not idler.done():
                idler.set_result(None)
