"""The asynchronous primitives of the shells.

``asyncio.wait_for``, ``gather``, ``TaskGroup``, ``timeout`` and ``Queue`` changed their schedule
between Python versions; a simulated run must not. These are built from futures, tasks,
``call_soon`` and ``call_at`` alone, which did not.
"""

# ruff: noqa: N818  (these end a wait; neither need be an error)
from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class DeadlineExceeded(Exception):
    """``with_deadline`` or ``Mailbox.get`` waited for as long as it was allowed to."""


class MailboxClosed(Exception):
    """The mailbox was closed and holds nothing any more."""


def resolve(future: asyncio.Future[None]) -> None:
    """Settle a future that only wakes somebody, unless it is settled already."""
    if not future.done():
        future.set_result(None)


async def turn() -> None:
    """Let everything that is ready now run first. A point where schedules may differ."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.call_soon(resolve, future)
    await future


class _NextEntry:
    """Awaited: what a bare ``yield`` of a task is to asyncio."""

    __slots__ = ()

    def __await__(self) -> Generator[None]:
        yield


def next_entry() -> Awaitable[None]:
    """Go on behind all that is ready now: as ``turn``, but the task itself stands in the queue.

    With a future there are two entries, and the first one of them moves nothing.
    """
    return _NEXT_ENTRY


_NEXT_ENTRY = _NextEntry()


async def pause(seconds: float) -> None:
    """Let time pass on the loop's clock: between attempts, never to synchronise."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, resolve, over)
    try:
        await over
    finally:
        timer.cancel()


class Mailbox(Generic[T]):
    """An unbounded queue. ``put`` never waits, and a cancelled ``get`` loses nothing.

    Futures here only wake: an item stays in the queue until a getter that runs takes it.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def put(self, item: T) -> None:
        """Append an item. Raises ``MailboxClosed``."""
        if self._closed:
            raise MailboxClosed
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """Refuse further items; getters empty the queue, then get ``MailboxClosed``."""
        self._closed = True
        while self._getters:
            resolve(self._getters.popleft())

    def clear(self) -> list[T]:
        """Take all items out and return them."""
        items = list(self._items)
        self._items.clear()
        return items

    def take(self, fits: Callable[[T], bool], count_max: int) -> list[T]:
        """Take up to ``count_max`` items off the front for as long as they fit."""
        taken: list[T] = []
        while self._items and len(taken) < count_max and fits(self._items[0]):
            taken.append(self._items.popleft())
        return taken

    async def get(self, deadline: float | None = None) -> T:
        """Take the first item.

        Args:
            deadline: seconds on the loop's clock.

        Raises:
            MailboxClosed: closed and empty.
            DeadlineExceeded: the deadline passed first.
        """
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        over = False

        def expire(getter: asyncio.Future[None]) -> None:
            # Noted here: a loop whose clock is coarser than a float fires a little before its time.
            nonlocal over
            over = True
            resolve(getter)

        while not self._items:
            if self._closed:
                raise MailboxClosed
            if over or (deadline is not None and loop.time() >= deadline):
                raise DeadlineExceeded
            getter: asyncio.Future[None] = loop.create_future()
            self._getters.append(getter)
            if deadline is not None:
                timer = loop.call_at(deadline, expire, getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # this wake-up was for an item that we leave to the next one
                raise
            finally:
                if timer is not None:
                    timer.cancel()
                if getter in self._getters:
                    self._getters.remove(getter)
        return self._items.popleft()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


class Turnstile:
    """A lock that is entered in the order in which it was asked for, never out of turn."""

    def __init__(self) -> None:
        self._held = False
        self._queue: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if not self._held:
            self._held = True
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._pass_on()
            raise

    async def __aexit__(self, *_exc: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        while self._queue:
            place = self._queue.popleft()
            if not place.done():
                place.set_result(None)  # stays held, now by the one who is woken
                return
        self._held = False


def _resolve_after(future: asyncio.Future[None], _task: object) -> None:
    resolve(future)


async def all_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until every task has ended, however it did. Cancelling waits no longer."""
    for task in tasks:
        if task.done():
            continue
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wake = partial(_resolve_after, ended)
        task.add_done_callback(wake)
        try:
            await ended
        finally:
            if not task.done():
                task.remove_done_callback(wake)


async def cancel_and_wait(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for them. A cancellation of the caller comes through afterwards."""
    for task in tasks:
        task.cancel()
    cancelled: asyncio.CancelledError | None = None
    for task in tasks:
        while not task.done():
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            wake = partial(_resolve_after, ended)
            task.add_done_callback(wake)
            try:
                await ended
            except asyncio.CancelledError as error:
                cancelled = error
                task.remove_done_callback(wake)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen: whoever cancels wants no outcome
    if cancelled is not None:
        raise cancelled


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


async def with_deadline(
    awaitable: Awaitable[T], seconds: float | None, *, name: str = "with-deadline"
) -> T:
    """Await something for at most ``seconds``; ``None`` = no limit.

    A result that is there when the time is up still counts.

    Raises:
        DeadlineExceeded: it was cancelled, and has ended.
    """
    if seconds is None:
        return await awaitable
    loop = asyncio.get_running_loop()
    # A coroutine becomes the task itself: cancelled at once, it still counts as awaited.
    work = awaitable if isinstance(awaitable, CoroutineType) else _await(awaitable)
    task: asyncio.Task[T] = loop.create_task(work, name=name)
    over: asyncio.Future[None] = loop.create_future()

    def wake(_task: object) -> None:
        resolve(over)

    timer = loop.call_later(seconds, resolve, over)
    task.add_done_callback(wake)
    try:
        await over
    except asyncio.CancelledError:
        await cancel_and_wait([task])
        raise
    finally:
        timer.cancel()
        task.remove_done_callback(wake)
    if not task.done():
        await cancel_and_wait([task])
        if task.cancelled() or task.exception() is not None:
            raise DeadlineExceeded
    return task.result()


class Deadline:
    """How long the running task waits for each of several things, one after the other.

    When the time is up the task itself is cancelled, so that none is made for what it waits for,
    and one timer does for all of them::

        deadline.begin(5.0)
        try:
            frames = await socket.recv()
        except asyncio.CancelledError:
            deadline.check()  # raises ``DeadlineExceeded`` if that was its doing
            raise
        finally:
            deadline.end()
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._struck = False

    def begin(self, seconds: float) -> None:
        """The next wait begins, and may take so long."""
        due = self._due = self._loop.time() + seconds
        if self._timer is None or due < self._timer_due:
            self.close()
            self._timer_due = due
            self._timer = self._loop.call_at(due, self._look)

    def end(self) -> None:
        """It is over. The timer may still run, for the next one."""
        self._due = None
        if self._struck:  # the work came to its end all the same
            self._struck = False
            self._task.uncancel()

    def check(self) -> None:
        """Raise ``DeadlineExceeded`` if the deadline, and nobody else, cancelled the task."""
        if self._struck:
            self._struck = False
            if not self._task.uncancel():
                raise DeadlineExceeded

    def close(self) -> None:
        """No further wait begins."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._due > self._timer_due:  # of a later wait
            self._timer_due = self._due
            self._timer = self._loop.call_at(self._due, self._look)
        else:
            self._struck = True
            self._task.cancel()


async def within(awaitable: Awaitable[T], seconds: float) -> T:
    """Await something for at most ``seconds``, in the running task.

    Raises:
        DeadlineExceeded: it was cancelled, and has ended.
    """
    deadline = Deadline()
    deadline.begin(seconds)
    try:
        return await awaitable
    except asyncio.CancelledError:
        deadline.check()
        raise
    finally:
        deadline.end()
        deadline.close()


OnError = Callable[[str, BaseException], None]
"""Called with a task's name and its exception."""


class TaskSet:
    """Owns tasks: every one is awaited by ``close``, and none fails unheard."""

    def __init__(self, on_error: OnError) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._on_error = on_error

    def spawn(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(task.get_name(), error)

    def names(self) -> tuple[str, ...]:
        """Names of the tasks that are alive, oldest first."""
        return tuple(task.get_name() for task in self._tasks if not task.done())

    def cancel(self) -> None:
        """Ask every task to end; does not wait."""
        for task in list(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Cancel the tasks in the order in which they were started, each awaited in turn."""
        cancelled: asyncio.CancelledError | None = None
        for task in list(self._tasks):
            try:
                await cancel_and_wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
