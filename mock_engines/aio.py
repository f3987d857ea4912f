"""The few asynchronous helpers of the shells, built on futures and callbacks only.

``asyncio.sleep``, ``wait`` and their kin differ between Python versions in how many turns of
the loop they take, which a simulated run would show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Iterable
from functools import partial
from typing import Any


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _settle_after(future: asyncio.Future[None], _task: asyncio.Task[Any]) -> None:
    _settle(future)


async def next_turn() -> None:
    """Let everything that is ready run first."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(_settle, future)
    await future


class _NextEntry:
    """Awaited: what a bare ``yield`` of a task is to asyncio."""

    __slots__ = ()

    def __await__(self) -> Generator[None]:
        yield


_NEXT_ENTRY = _NextEntry()


def next_entry() -> Awaitable[None]:
    """Go on behind all that is ready, as ``next_turn``, but the task itself stands in the queue.

    With a future there are two entries, and the first one moves nothing: for each forward pass of
    each rank.
    """
    return _NEXT_ENTRY


async def at_once() -> None:
    """Wait for nothing."""


async def pause_for(seconds: float) -> None:
    """Wait for a time on the loop's clock: scripted delays, never synchronisation."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    timer = loop.call_later(seconds, _settle, future)
    try:
        await future
    finally:
        timer.cancel()


async def never() -> None:
    """Wait until cancelled."""
    await asyncio.get_running_loop().create_future()


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Return once all tasks are done, however they ended. The caller's own is left out."""
    current = asyncio.current_task()
    for task in list(tasks):
        if task is current or task.done():
            continue
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(partial(_settle_after, future))
        await future
