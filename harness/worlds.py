"""The two worlds that a run lives in: a loop and a transport, simulated or real."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, Literal, Protocol, TypeVar

from client.protocol.transport import Transport
from client.transports.sockets import ZmqTransport
from harness.sim.choosing import Chooser
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop

T = TypeVar("T")

SETTLE_TURNS = 20
"""Loop turns that a real-time fence gives to callbacks that are ready already."""
STUCK_S = 1.0
"""Real seconds after which an interruption breaks into a simulated step that does not end."""


class World(Protocol):
    """Where a run lives. A world serves one run."""

    virtual: bool
    step_limit_s: float
    """Safety net of one step: virtual seconds (they cost nothing) or real ones."""

    @property
    def transport(self) -> Transport:
        """The transport for client and engines; call inside ``run`` only."""

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``main()`` on the world's loop to its end, then release everything."""

    async def settle(self) -> None:
        """Return when nothing is ready to run (simulation), or a few turns later (real)."""

    def waiting(self) -> tuple[str, ...]:
        """Who waits for what, for the report of a step that never ended."""


class SimWorld:
    """SimPy clock, in-memory links, every choice drawn from ``chooser``."""

    virtual = True
    step_limit_s = 120.0

    def __init__(self, chooser: Chooser, *, record_labels: bool = False) -> None:
        # The missing methods are added by a decorator: each refuses to reach outside.
        self._loop = SimLoop(chooser, record_labels=record_labels)  # type: ignore[abstract]
        self._transport = SimTransport(self._loop)

    @property
    def transport(self) -> Transport:
        """The in-memory transport."""
        return self._transport

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run on the simulated loop.

        Raises:
            Deadlock: nothing can run and ``main`` is not done.
            StepLimitExceeded: the run does not come to an end.
            KeyboardInterrupt: SIGINT or SIGTERM arrived; the run has been wound up.
        """
        try:
            with _interruptions(self._loop.interrupt):
                return self._loop.run(main())
        finally:
            self._transport.close()

    async def settle(self) -> None:
        """Return once nothing else can run at this moment of virtual time."""
        await self._loop.settled()
        self._loop.forget_ended()

    def waiting(self) -> tuple[str, ...]:
        """Live tasks and where each one waits."""
        return tuple(f"{name}: {where}" for name, where in self._loop.waiting())


@contextlib.contextmanager
def _interruptions(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM call ``stop`` inside; raise in the end if one of them came.

    A second signal, or ``STUCK_S`` without an end, raises where the run happens to be.

    Raises:
        KeyboardInterrupt: a signal arrived.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    timers: list[threading.Timer] = []

    def interrupt(signum: int, _frame: FrameType | None) -> None:
        if timers:
            raise KeyboardInterrupt
        timers.append(threading.Timer(STUCK_S, signal.raise_signal, (signum,)))
        timers[0].daemon = True
        timers[0].start()
        stop()

    before = {
        signum: signal.signal(signum, interrupt) for signum in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if timers:
        raise KeyboardInterrupt


class ZmqWorld:
    """Stock asyncio and real sockets."""

    virtual = False
    step_limit_s = 15.0

    def __init__(self, scheme: Literal["ipc", "tcp"] = "ipc") -> None:
        self._scheme = scheme
        self._transport: ZmqTransport | None = None

    @property
    def transport(self) -> Transport:
        """Real sockets, opened in the running loop."""
        if self._transport is None:
            self._transport = ZmqTransport(scheme=self._scheme)
        return self._transport

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run on a new stock event loop; SIGINT and SIGTERM cancel ``main`` and let it clean up.

        Raises:
            KeyboardInterrupt: a signal arrived; everything of this run has been released.
        """
        loop = asyncio.SelectorEventLoop()
        try:
            return self._run_on(loop, main)
        finally:
            if self._transport is not None:
                self._transport.close()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    @staticmethod
    def _run_on(loop: asyncio.AbstractEventLoop, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        interrupted = False
        tasks: list[asyncio.Task[T]] = []

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            for task in tasks:
                task.cancel()

        installed = []
        for signum in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(signum, interrupt)
            except (ValueError, RuntimeError, NotImplementedError):
                continue  # not the main thread, or no signals on this platform
            installed.append(signum)
        # Not before: an interruption in between would lose the coroutine.
        task = loop.create_task(main(), name="run")
        tasks.append(task)
        try:
            result = loop.run_until_complete(task)
        except BaseException as error:
            # Whatever cleaning up raised: who interrupted wants the command to end.
            if interrupted:
                raise KeyboardInterrupt from error
            raise
        finally:
            leftover = [t for t in asyncio.all_tasks(loop) if not t.done()]
            for other in leftover:
                other.cancel()
            for other in leftover:
                loop.run_until_complete(_ended(other))
            for signum in installed:
                loop.remove_signal_handler(signum)
        if interrupted:
            raise KeyboardInterrupt
        return result

    async def settle(self) -> None:
        """Let callbacks that are ready run."""
        for _ in range(SETTLE_TURNS):
            await _turn()

    def waiting(self) -> tuple[str, ...]:
        """Live tasks by name."""
        return tuple(sorted(task.get_name() for task in asyncio.all_tasks() if not task.done()))


def _turn() -> Awaitable[None]:
    loop = asyncio.get_running_loop()
    turn: asyncio.Future[None] = loop.create_future()
    loop.call_soon(_resolve, turn)
    return turn


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _ended(task: asyncio.Task[Any]) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task.add_done_callback(lambda _task: _resolve(done))
    await done
