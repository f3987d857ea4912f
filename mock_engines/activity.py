"""Which plans of an engine are under way, and which of them only wait.

An engine is *idle* when all that runs has ended or waits for something scripted: a gate, a
state, or for ever. A gate that opens counts its waiters as busy in that very moment. An engine
that is *stalled* is idle as a whole: whatever it was at waits until it goes on.
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
    _stalled: bool = False
    _holding: bool = False
    _held: list[asyncio.Future[None]] = field(default_factory=list)
    _on_stall: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        """Whether anything runs that waits for nothing scripted."""
        return not self._stalled and not all(self._blocked.values())

    @property
    def stalled(self) -> bool:
        """Whether the whole engine has stopped."""
        return self._stalled

    @property
    def holding(self) -> bool:
        """Whether ``running`` would wait."""
        return self._holding

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
            task = None  # its exception has this frame, and so would refer to itself

    def hold(self) -> None:
        """Stop everything; follow it up with ``go_on_at``."""
        self._stalled = self._holding = True
        _settle_all(self._on_stall)
        self._tell()

    async def go_on_at(self, gate: str, resumed: Callable[[], None]) -> None:
        """Wait until the gate opens, then let all go on; ``resumed`` runs in that moment.

        What the caller does next comes before everything that was held.
        """

        def released() -> None:
            # Busy from here on; the others are held until we run.
            self._stalled = False
            resumed()

        try:
            await self.gates.wait(gate, released)
        finally:
            # Cancelled, the engine is ended, or a new one begins.
            self._stalled = self._holding = False
            _settle_all(self._held)

    async def running(self) -> None:
        """Return at once, or when the engine is stalled no more."""
        while self._holding:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._held.append(future)
            await future

    async def ended_or_stalled(self, task: asyncio.Task[Any]) -> None:
        """Return once a task is over, or the engine is stalled."""
        if task.done() or self._stalled:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_stall.append(future)

        def ended(_task: asyncio.Task[Any]) -> None:
            _settle_all([future])

        task.add_done_callback(ended)
        try:
            await future
        finally:
            task.remove_done_callback(ended)
            if future in self._on_stall:
                self._on_stall.remove(future)

    async def until(self, holds: Holds) -> None:
        """Wait until a condition on the engine's state holds; at once if it does."""
        while not holds():
            task = asyncio.current_task()
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
                del task, condition  # as above

    def changed(self) -> None:
        """The engine's state changed: release those whose condition holds now."""
        if not self._conditions:
            return
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
            if blocked:  # who waits for all to be idle does so while something is busy
                self._tell()

    def _tell(self) -> None:
        if self._idlers and not self.busy:
            _settle_all(self._idlers)


def _settle_all(waiting: list[asyncio.Future[None]]) -> None:
    """Wake all who wait, in order, and forget them."""
    woken = waiting[:]
    waiting.clear()
    for future in woken:
        if not future.done():
            future.set_result(None)
