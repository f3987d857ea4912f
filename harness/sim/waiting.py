"""Who waits for what: reads suspended tasks without disturbing them."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Iterable
from typing import Any

Describe = Callable[["asyncio.Future[Any]"], "str | None"]
"""Names what a future stands for, or ``None`` if it is not one of ours."""
_DEPTH_MAX = 1_000
"""Awaits followed at most; a chain of coroutines cannot be a circle, this is a safety net."""


def _innermost(coroutine: object) -> str:
    """Qualified name of the coroutine of ours that is suspended deepest."""
    name = "?"
    for _ in range(_DEPTH_MAX):
        if isinstance(coroutine, types.CoroutineType):
            name, inner = coroutine.__qualname__, coroutine.cr_await
        elif isinstance(coroutine, types.GeneratorType):
            name, inner = coroutine.__qualname__, coroutine.gi_yieldfrom
        else:
            break
        coroutine = inner
    return name


def whereabouts(task: asyncio.Task[Any], describe: Describe) -> str:
    """Say where a task is suspended and what it awaits, as far as that can be told."""
    where = _innermost(task.get_coro())
    # Private, but the only way to see which future a task waits for.
    waiter = getattr(task, "_fut_waiter", None)
    if waiter is None:
        return where
    if (named := describe(waiter)) is not None:
        return f"{where} on {named}"
    if isinstance(waiter, asyncio.Task):
        return f"{where} on task {waiter.get_name()}"
    return where


def waiting(tasks: Iterable[asyncio.Task[Any]], describe: Describe) -> tuple[tuple[str, str], ...]:
    """Pair each task's name with its whereabouts, in the order given."""
    return tuple((task.get_name(), whereabouts(task, describe)) for task in tasks)


def as_lines(pairs: Iterable[tuple[str, str]]) -> str:
    """Render such pairs, one line each."""
    return "".join(f"\n  {name}: waits in {where}" for name, where in pairs)
