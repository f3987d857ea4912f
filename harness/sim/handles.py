"""What the loop hands out for callbacks and timers, and how its ready entries are named.

A ready entry is any callable without arguments. Three kinds exist: a ``functools.partial`` of
``Context.run`` (task steps and callbacks), a fired timer, and whatever a transport adds, which
carries a ``label`` of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.sim.clock import MICROSECONDS

if TYPE_CHECKING:
    import simpy

    from harness.sim.clock import Clock, Timer

Entry = Callable[[], object]
"""One thing that may run next."""
Task = asyncio.Task
"""Whose step an entry may be; named here for those who know no asyncio."""


class ReadyList(list[Entry]):
    """The loop's list of ready entries.

    Attributes:
        looked: for whoever chooses: how many entries at its head it has looked at. New ones come
            at the end; the loop goes back to 0 where it takes one out itself.
        tidy: all that stands on it may matter, but for the run's own task: a loop keeps it that
            runs bookkeeping at once. No more so once a task has failed.
        has_main: whether that task may be on it; whoever chooses takes the mark off.
    """

    __slots__ = ("has_main", "looked", "tidy")

    def __init__(self, entries: Iterable[Entry] = (), *, tidy: bool = False) -> None:
        super().__init__(entries)
        self.looked = 0
        self.tidy = tidy
        self.has_main = tidy

    def remove(self, entry: Entry, /) -> None:
        """Take an entry back."""
        super().remove(entry)
        self.looked = 0


class ReadyHandle(partial[object]):
    """What ``call_soon`` puts on the ready list, and its own handle.

    No ``asyncio.Handle``, though it has all methods of one: an object for each callback and one
    more for its handle took a tenth of the bare loop's time.
    """

    ready: list[Entry]
    """The list on which it stands; set by the loop."""
    _cancelled = False

    def cancel(self) -> None:
        """Forget the callback if it did not run yet: a dead callback is never an option."""
        self._cancelled = True
        if self in self.ready:
            self.ready.remove(self)

    def cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._cancelled

    def __repr__(self) -> str:
        return f"<ReadyHandle {label_of(self)}>"


class StepHandle(asyncio.Handle):
    """The one handle of all steps that asyncio schedules for its own tasks."""

    __slots__ = ()

    def __init__(self) -> None:
        self._cancelled = False

    def cancel(self) -> None:
        """Refuse.

        Raises:
            RuntimeError: always; cancel the task instead.
        """
        msg = "a task's step cannot be taken back; cancel the task"
        raise RuntimeError(msg)

    def __repr__(self) -> str:
        return "<StepHandle>"


class SimTimerHandle(asyncio.TimerHandle):
    """Handle of ``call_at``; itself the ready entry once the timer fired."""

    __slots__ = ("_clock", "_due_us", "_event", "_ready", "_run_it")

    def __init__(self, run_it: Entry, due_us: int, ready: list[Entry], clock: Clock) -> None:
        self._run_it = run_it
        self._due_us = due_us
        self._ready = ready
        self._clock = clock
        self._cancelled = False
        self._event: Timer | None = None
        delay_us = due_us - clock.now_us
        if delay_us > 0:
            self._event = clock.after(delay_us, self._fire)
        else:
            ready.append(self)

    def _fire(self, _event: simpy.Event) -> None:
        self._event = None
        self._ready.append(self)

    def __call__(self) -> None:
        """Run the callback (the loop calls this)."""
        self._run_it()

    @property
    def label(self) -> str:
        """Name in labels: the time it was due, which no Python version changes."""
        return f"timer {self._due_us} us"

    def cancel(self) -> None:
        """Forget the callback if it did not run yet."""
        self._cancelled = True
        if self._event is not None:
            self._clock.discard(self._event)
            self._event = None
        elif self in self._ready:
            self._ready.remove(self)

    def cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._cancelled

    def when(self) -> float:
        """Seconds on the loop's clock at which it is due."""
        return self._due_us / MICROSECONDS

    # asyncio compares timers by time; here only the very same timer is equal.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<SimTimerHandle {self.label}>"


def bind(
    callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
) -> Entry:
    """Make the entry that runs ``callback`` in its context."""
    return partial(context.run, callback, *args)


def callback_name(callback: object) -> str:
    """Name a callback the same way on every Python version and in every process."""
    while isinstance(callback, partial):
        callback = callback.func
    name = getattr(callback, "__qualname__", None)
    return name if isinstance(name, str) else type(callback).__qualname__


def task_of(entry: Entry) -> asyncio.Task[Any] | None:
    """The task whose step an entry is, if it is one."""
    owner = getattr(entry.args[0], "__self__", None) if isinstance(entry, partial) else None
    return owner if isinstance(owner, asyncio.Task) else None


def label_of(entry: Entry) -> str:
    """Name a ready entry: task name, ``callback …``, or the entry's own label."""
    if not isinstance(entry, partial):
        return str(getattr(entry, "label", "")) or callback_name(entry)
    callback = entry.args[0]
    owner = getattr(callback, "__self__", None)
    if owner.__class__ is Task or isinstance(owner, Task):  # the first is faster, and mostly so
        return owner.get_name()
    return f"callback {callback_name(callback)}"
