"""A deterministic ``asyncio`` event loop whose clock is SimPy's.

The loop owns the list of ready entries, in first-in-first-out order. At each step it asks its
chooser which entry runs, if there are two or more, and runs it to its next await. Only when
nothing is ready does time move: to the next timer, and all timers due then become ready
together. So a run is a function of the code and of the chooser's answers, and of nothing else.

What keeps it so: no thread, no real socket, no signal, no wall clock; tasks get names numbered
by this loop (asyncio's own counter is global); the garbage collector is off while a run lasts,
since finalisers would run at times that depend on unrelated allocations.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import types
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, cast
from weakref import WeakKeyDictionary

import simpy

from harness.sim.choosing import Chooser
from harness.sim.clock import MICROSECONDS, Clock, Timer, to_us
from harness.sim.component import ENGINE, context_for
from harness.sim.errors import CallbackFailed, Deadlock, StepLimitExceeded, StuckTask
from harness.sim.handles import (
    Entry,
    ReadyHandle,
    ReadyList,
    SimTimerHandle,
    StepHandle,
    bind,
    label_of,
)
from harness.sim.unavailable import refuses_the_outside
from harness.sim.waiting import Describe, waiting

_enter, _leave = events._set_running_loop, partial(events._set_running_loop, None)  # noqa: SLF001
"""Private in name, but documented for event loops (asyncio ``events.py``); no other way exists."""
_REGISTRY: Any = getattr(
    asyncio.tasks, "_scheduled_tasks", getattr(asyncio.tasks, "_all_tasks", None)
)
"""Where asyncio notes each task for ``all_tasks``, in Python and with a weak reference that tells of
its end. A simulated loop knows its tasks itself; where there is no such set, nothing is saved."""
_forget = deque[object](maxlen=0).append
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Context = contextvars.Context
_STEP_HANDLE = StepHandle()
STEP_LIMIT = 1_000_000
"""Steps of one run at most, by default."""
DRAIN_STEPS_MAX = 100_000
"""Steps that cancelled tasks may take at the end of a run."""
YOUNG_MAX = 50_000
"""Objects that may be made and not freed between two garbage collections, for the whole process
once a run was simulated. With the usual 700 there would be a collection after every run, for
the two hundred objects that a run leaves in circles."""


AT_ONCE = frozenset(
    {
        "_resolve_after",
        "Activity.end",
        "Endpoint._task_ended",
        "with_deadline.<locals>.wake",
    }
)
"""Callbacks of tasks that run in the moment in which the task ends. They count tasks or wake somebody
who waits for one, and touch nothing else: when they run is no choice. A fifth of all entries was
that."""
_OURS = frozenset({partial, types.MethodType, types.FunctionType})
"""What such callbacks can be; asyncio's own are none of them."""
_BUILT_IN = types.BuiltinMethodType
"""What wakes a task is a method of the task."""

PRUNE_MIN = 64
"""Tasks that the registry holds before it lets go of those that have ended."""


def _name_of(callback: Callable[..., object]) -> str:
    return (callback.func if isinstance(callback, partial) else callback).__qualname__


@dataclass(frozen=True, slots=True)
class Orphan:
    """An exception that nobody asked for. ``drained``: raised while the run was wound up."""

    task: str
    error: BaseException
    drained: bool


@refuses_the_outside
class SimLoop(asyncio.AbstractEventLoop):
    """The loop of one simulated run.

    Args:
        chooser: picks one of two or more ready entries.
        step_limit: entries that may run before ``StepLimitExceeded``.
        record_labels: hand the names of the options to the chooser (slow: for reports).

    Attributes:
        orphans: exceptions that no one retrieved, in order of their tasks' creation; known
            once ``run`` is over.
        steps: entries that ran so far.
        add_ready: puts an entry of a transport at the end of the ready list; it has a ``label``.
    """

    def __init__(
        self, chooser: Chooser, *, step_limit: int = STEP_LIMIT, record_labels: bool = False
    ) -> None:
        self._chooser = chooser
        self._step_limit = step_limit
        self._record_labels = record_labels
        self._clock = Clock()
        self._ready = ReadyList(tidy=True)
        self.add_ready: Callable[[Entry], None] = self._ready.append
        if (attach := getattr(chooser, "attach", None)) is not None:
            attach(self._ready)
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_made = 0
        self._prune_at = PRUNE_MIN
        self._settlers: list[asyncio.Future[None]] = []
        self._names: WeakKeyDictionary[asyncio.Future[Any], str] | None = None
        self._describers: list[Describe] = []
        self._failures: list[dict[str, Any]] = []
        self._interruptions: list[str] = []
        self._running = False
        self._main: asyncio.Task[Any] | None = None
        self._closed = False
        self.orphans: tuple[Orphan, ...] = ()
        self.steps = 0

    # --- running -------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run ``main`` to its end, then cancel and drain whatever is left.

        Raises:
            Deadlock, StepLimitExceeded: ``main`` cannot end.
            StuckTask: a task did not end when cancelled.
            CallbackFailed: a callback raised, or asyncio reported an error.
            NotAvailableError: the code reached for the outside world.
            KeyboardInterrupt: ``interrupt`` was called; the run has been wound up.
        """
        if self._closed or self._running:
            main.close()
            msg = "the loop is closed" if self._closed else "the loop is already running"
            raise RuntimeError(msg)
        collecting = gc.isenabled()
        _enter(self)
        self._running = True
        if _REGISTRY is not None:
            _REGISTRY.add = _forget
        gc.disable()
        if gc.get_threshold()[0] < YOUNG_MAX:
            gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])
        try:
            task = self.create_task(main, name="main")
            self._main = task
            try:
                self._drive(task)
            except SystemExit:
                raise
            except BaseException as error:
                self._wind_up(error)
                raise
            self._wind_up(None if task.cancelled() else task.exception())
            return task.result()
        finally:
            if collecting:
                gc.enable()
            self._running = False
            self._main = None
            if _REGISTRY is not None:
                del _REGISTRY.add
            _leave()

    def let_go(self) -> None:
        """Forget what became ready after the end, such as notices of sockets that were closed."""
        self._ready.clear()

    def interrupt(self) -> None:
        """Stop the run before its next entry; ``run`` winds up and raises.

        For signal handlers: an exception out of one would surface inside any coroutine, or
        between two that hand something over.
        """
        self._interruptions.append("interrupted")

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Do what ``run`` does, for any awaitable."""
        awaitable = cast("Awaitable[T]", future)

        async def wait_for_it() -> T:
            return await awaitable

        if asyncio.iscoroutine(awaitable):
            return self.run(cast("Coroutine[Any, Any, T]", awaitable))
        return self.run(wait_for_it())

    def limit_steps(self, most: int) -> None:
        """Raise ``StepLimitExceeded`` behind so many entries."""
        self._step_limit = most

    def _drive(self, main: asyncio.Task[Any]) -> None:
        """Run entries until ``main`` is done. The one hot loop: locals, no calls to spare."""
        ready, choose, done = self._ready, self._chooser.choose, main.done
        if self._record_labels:
            choose = partial(choose, labels=self._labels)
        interruptions, limit = self._interruptions, self._step_limit
        steps = before = self.steps
        try:
            for steps in range(before + 1, limit + 1):  # noqa: B007  (kept below)
                if interruptions:
                    raise KeyboardInterrupt
                n = len(ready)
                if not n:
                    if not self._refill():
                        raise Deadlock(self.waiting())
                    n = len(ready)
                if n > 1:
                    entry = ready.pop(choose(n))
                else:
                    entry = ready.pop()
                    ready.looked = 0
                try:
                    entry()
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001  (kept, and raised at the end)
                    self._callback_raised(entry, error)
                if done():
                    return
            raise StepLimitExceeded(limit, self.waiting())
        finally:
            self.steps = steps

    def _refill(self) -> bool:
        """Make something ready, if possible: those who wait for quiet, else the next timers."""
        ready = self._ready
        while not ready:
            if self._settlers:
                settlers, self._settlers = self._settlers, []
                for settler in settlers:
                    if not settler.done():
                        settler.set_result(None)
            elif self._clock.live:
                self._clock.advance()
            else:
                return False
        return True

    def _labels(self) -> list[str]:
        return [label_of(entry) for entry in self._ready]

    def _callback_raised(self, entry: Entry, error: BaseException) -> None:
        self._failures.append(
            {"message": f"{label_of(entry)} raised {error!r}", "exception": error}
        )

    # --- the end of a run ------------------------------------------------------------------

    def _wind_up(self, primary: BaseException | None) -> None:
        """Cancel and drain the other tasks, collect orphans, raise what was kept back.

        A failure found here does not hide ``primary``: it becomes a note of it.
        """
        before = self._orphans(drained=False)
        try:
            self._drain()
            self._raise_failures()
        except (StuckTask, CallbackFailed, StepLimitExceeded) as error:
            if primary is None:
                raise
            primary.add_note(f"and at the end of the run: {error}")
        finally:
            self.orphans = before + self._orphans(drained=True)
            self._close_stuck()
            self._tasks.clear()
            self._ready.clear()
            self._failures.clear()
            self._describers.clear()
            self._clock.forget()

    def _drain(self) -> None:
        """Let cancelled tasks end, in first-in-first-out order; these are not choices."""
        live = self._live()
        if not live and not self._ready:
            return
        for task in live:
            task.cancel("the run is over")
        for _ in range(DRAIN_STEPS_MAX):
            if not self._ready and not (self._live() and self._refill()):
                break
            entry = self._ready.pop(0)
            try:
                entry()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001  (kept, and raised at the end)
                self._callback_raised(entry, error)
        if stuck := self._live():
            raise StuckTask(waiting(stuck, self.describe))

    def _close_stuck(self) -> None:
        """Close coroutines that did not end, while this loop is there for what they do then."""
        for task in self._live():
            coroutine = task.get_coro()
            if coroutine is not None:
                try:
                    coroutine.close()
                except Exception as error:  # noqa: BLE001  (kept, as in all other callbacks)
                    self._failures.append({"message": f"{task.get_name()}: {error!r}"})

    def _raise_failures(self) -> None:
        if self._failures:
            first = self._failures[0]
            more = len(self._failures) - 1
            text = first["message"] + (f" (and {more} more)" if more else "")
            raise CallbackFailed(text) from first.get("exception")

    def _orphans(self, *, drained: bool) -> tuple[Orphan, ...]:
        found = []
        for task in self._tasks:
            # Private, but it is how asyncio itself knows: nobody has asked for the exception.
            if task.done() and getattr(task, "_log_traceback", False):
                error = task.exception()
                assert error is not None
                found.append(Orphan(task.get_name(), error, drained))
        return tuple(found)

    # --- asking about the run --------------------------------------------------------------

    async def settled(self) -> None:
        """Wait until nothing else is ready. Time does not move meanwhile.

        Several may wait; they go on together.
        """
        quiet = self.create_future()
        self._settlers.append(quiet)
        await quiet

    @property
    def pending_timers(self) -> int:
        """Timers that are due in the future."""
        return self._clock.live

    @property
    def now_us(self) -> int:
        """The clock, in microseconds since the start of the run."""
        return self._clock.now_us

    def label(self, future: asyncio.Future[Any], text: str) -> None:
        """Say what a future stands for, to be shown if a deadlock is to be explained."""
        if self._names is None:
            self._names = WeakKeyDictionary()
        self._names[future] = text

    def add_describer(self, describe: Describe) -> None:
        """Ask ``describe`` what a future stands for, when a deadlock is to be explained."""
        self._describers.append(describe)

    def describe(self, future: asyncio.Future[Any]) -> str | None:
        """Tell what a future stands for, if anybody said so."""
        if self._names is not None and (text := self._names.get(future)) is not None:
            return text
        for describer in self._describers:
            if (text := describer(future)) is not None:
                return text
        return None

    def _live(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks if not task.done()]

    def waiting(self) -> tuple[tuple[str, str], ...]:
        """Live tasks by name, in creation order, and where each one waits."""
        return waiting(self._live(), self.describe)

    # --- for links ---------------------------------------------------------------------------

    def remove_ready(self, entry: Entry) -> None:
        """Take such an entry back."""
        self._ready.remove(entry)

    def after_us(self, delay_us: int, act: Callable[[simpy.Event], None]) -> Timer:
        """Call ``act`` when time has moved; it may only make entries ready."""
        return self._clock.after(delay_us, act)

    # --- what asyncio's tasks and futures ask of a loop ------------------------------------

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Put a callback at the end of the ready list.

        What comes with a context is a step or a callback of asyncio's own tasks and futures. It
        gets a handle that cannot be cancelled: nobody looks at it, and this is the hottest call
        of a run.
        """
        if context is not None:
            kind = callback.__class__
            if kind is _BUILT_IN:
                if callback.__self__ is self._main:  # type: ignore[attr-defined]
                    self._ready.has_main = True
            elif kind in _OURS and _name_of(callback) in AT_ONCE and self._at_once(callback, args):
                return _STEP_HANDLE
            run: Callable[..., object] = context.run
            # ``*args`` makes a list and a tuple, mostly for one argument or none.
            if not args:
                self._ready.append(partial(run, callback))
            elif len(args) == 1:
                self._ready.append(partial(run, callback, args[0]))
            else:
                self._ready.append(partial(run, callback, *args))
            return _STEP_HANDLE
        entry = ReadyHandle(contextvars.copy_context().run, callback, *args)
        entry.ready = self._ready
        self._ready.append(entry)
        return entry  # type: ignore[return-value]

    def _at_once(self, callback: Callable[..., object], args: tuple[Any, ...]) -> bool:
        """Run a callback of a task that has ended; not of one that failed.

        asyncio notes only behind its callbacks that nobody has asked for the error, so that one
        who asks here is not counted. It stands on the list then, as bookkeeping.
        """
        task = args[0]
        if not task.cancelled() and task.exception() is not None:
            self._ready.tidy = False
            return False
        try:
            callback(*args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  (kept, and raised at the end)
            self._callback_raised(partial(callback, *args), error)
        return True

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Make a callback ready ``delay`` seconds from now (to the nearest microsecond)."""
        due_us = self._clock.now_us + round(delay * MICROSECONDS)
        entry = bind(callback, args, contextvars.copy_context() if context is None else context)
        return SimTimerHandle(entry, due_us, self._ready, self._clock)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Make a callback ready at ``when``, seconds on this loop's clock."""
        entry = bind(callback, args, contextvars.copy_context() if context is None else context)
        return SimTimerHandle(entry, to_us(when), self._ready, self._clock)

    def time(self) -> float:
        """Seconds since the start of the run."""
        return self._clock.now_us / MICROSECONDS

    def time_us(self) -> int:
        """Microseconds since the start of the run."""
        return self._clock.now_us

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """Make a task; without a name it is called ``task-n``, n counted by this loop."""
        self._tasks_made += 1
        if name is None:
            name = f"task-{self._tasks_made}"
        if context is None and name.startswith(ENGINE):  # most tasks are none of an engine's
            context = context_for(name)
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) >= self._prune_at:
            self.forget_ended()
            self._prune_at = max(PRUNE_MIN, 2 * len(self._tasks))
        return task

    def forget_ended(self) -> None:
        """Let go of tasks that have ended, but for those whose exception nobody has seen.

        A finished task holds its frames, and with them whatever its coroutine referred to.
        """
        self._tasks = [
            task
            for task in self._tasks
            if not task.done() or getattr(task, "_log_traceback", False)
        ]

    def get_task_factory(self) -> None:
        """Return ``None``: tasks are asyncio's own."""

    get_debug = cast("Callable[[Any], bool]", staticmethod(bool))
    """Return ``False``; asyncio's debug mode is eighteen times slower. ``bool()`` is ``False``
    without a call into Python: each new task and future asks."""

    def set_debug(self, enabled: bool) -> None:
        """Ignore the wish: there is no debug mode."""

    def get_exception_handler(self) -> None:
        """Return ``None``: errors are raised at the end of the run."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Do what ``call_exception_handler`` does."""
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio reports; ``run`` raises it at its end."""
        self._failures.append(context)

    def is_running(self) -> bool:
        """Whether ``run`` is under way."""
        return self._running

    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def close(self) -> None:
        """Refuse further runs."""
        if self._running:
            msg = "cannot close a running loop"
            raise RuntimeError(msg)
        self._closed = True

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: simulated code uses no async generators."""

    async def shutdown_default_executor(self) -> None:
        """Do nothing: there are no threads."""
