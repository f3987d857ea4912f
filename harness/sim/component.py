"""Which part of the simulated system an entry belongs to.

Engines are processes of their own: what two of them do, and what one of them and the client
do, meets in messages alone. So two entries of different parts can change places without
anybody seeing it, which is what a reduction of the search leans on. A part's tasks and callbacks
inherit it through their context; its sockets carry it.
"""

from __future__ import annotations

import functools
import re
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any

from harness.sim.handles import Entry, task_of
from harness.sim.pipes import Pipe

REST = "client"
"""Part of everything that is no engine: client, coordinator, callers."""
ENGINE = "engine "
"""How the names of an engine's tasks begin."""
_ENGINE = re.compile(r"engine \d+\b")
_PART: ContextVar[str] = ContextVar("part", default=REST)
HARNESS = "main"
"""Name of the task that plays the steps; it touches every part."""


def current_part() -> str:
    """The part that is running."""
    return _PART.get()


def context_for(name: str) -> Context | None:
    """A context for a new task of this name, if the task begins another part; else ``None``."""
    part = _named(name)
    if part is None or _PART.get() == part:
        return None
    context = copy_context()
    context.run(_PART.set, part)
    return context


@functools.lru_cache(maxsize=1_024)
def _named(name: str) -> str | None:
    """The engine that a task's name begins with. Kept: all runs of a campaign have the same."""
    found = _ENGINE.match(name)
    return None if found is None else found.group()


def part_of(entry: Entry) -> str | None:
    """The part whose state an entry may touch; ``None``: anything."""
    if isinstance(entry, Pipe):
        return entry.part()
    if not isinstance(entry, partial):
        return None
    task = task_of(entry)
    if task is not None and task.get_name() == HARNESS:
        return None
    context: Any = getattr(entry.func, "__self__", None)
    return context.get(_PART, REST) if isinstance(context, Context) else None
