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
from harness.awake import AwakeLoop
from harness.interruption import heard, put_off
from harness.sim.choosing import Chooser
from harness.sim.links import SimTransport
from harness.sim.loop import STEP_LIMIT, SimLoop
from harness.tape import Recorder

T = TypeVar("T")

SETTLE_TURNS = 20
"""Loop turns that a real-time fence gives to callbacks that are ready already."""
STUCK_S = 1.0
"""Real seconds after which an interruption breaks into a simulated step that does not end."""
PATIENCE_S = 8.0
"""Seconds that an interrupted run on real sockets gets for its waits, more than a frontend that
has to be killed takes; then they are ended. So nobody outside keeps us by answering nothing."""
HASTE_S = 0.5
"""After that, or after a second interruption: seconds that each further wait gets."""


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

    def steps_begin(self) -> None:
        """Take note that the first step of the scenario begins."""

    def steps_end(self) -> None:
        """Take note that the scenario has come to its end."""


class SimWorld:
    """SimPy clock, in-memory links, every choice drawn from ``chooser``."""

    virtual = True
    step_limit_s = 120.0

    def __init__(
        self, chooser: Chooser, *, record_labels: bool = False, step_limit: int = STEP_LIMIT
    ) -> None:
        self._chooser = chooser
        # The missing methods are added by a decorator: each refuses to reach outside.
        self._loop = SimLoop(  # type: ignore[abstract]
            chooser, record_labels=record_labels, step_limit=step_limit
        )
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
            KeyboardInterrupt: interrupted by a signal; the run has been wound up.
        """
        try:
            with _interruptions(self._loop.interrupt):
                return self._loop.run(main())
        finally:
            self._transport.dissolve()
            self._loop.let_go()

    def limit_steps(self, most: int) -> None:
        """Give the run up behind so many steps of the loop, instead of the loop's own limit."""
        self._loop.limit_steps(most)

    async def settle(self) -> None:
        """Return once nothing else can run at this moment of virtual time."""
        await self._loop.settled()
        self._loop.forget_ended()

    def waiting(self) -> tuple[str, ...]:
        """Live tasks and where each one waits."""
        return tuple(f"{name}: {where}" for name, where in self._loop.waiting())

    def steps_begin(self) -> None:
        """Tell the recorder of choices, if there is one."""
        if isinstance(self._chooser, Recorder):
            self._chooser.steps_begin()

    def steps_end(self) -> None:
        """Tell the sockets, and the recorder of choices, if there is one."""
        self._transport.steps_end()
        if isinstance(self._chooser, Recorder):
            self._chooser.steps_end()


@contextlib.contextmanager
def _interruptions(stop: Callable[[], None]) -> Iterator[None]:
    """Let the signals that end a command call ``stop`` inside; raise in the end if one came.

    A second signal, or ``STUCK_S`` without an end, raises where the run happens to be.

    Raises:
        KeyboardInterrupt: a signal arrived.
    """
    timers: list[threading.Timer] = []

    def interrupt(signum: int, _frame: FrameType | None) -> None:
        if timers:
            raise KeyboardInterrupt
        timers.append(threading.Timer(STUCK_S, signal.raise_signal, (signum,)))
        timers[0].daemon = True
        timers[0].start()
        stop()

    try:
        with heard(interrupt):
            yield
    finally:
        for timer in timers:
            timer.cancel()
    if timers:
        raise KeyboardInterrupt


class _Interruptible:
    """One run on a stock loop, which signals can end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._interrupted = False
        self._again: asyncio.TimerHandle | None = None
        self._main: asyncio.Task[Any] | None = None

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``main()`` to its end.

        Raises:
            KeyboardInterrupt: a signal arrived, whatever cleaning up raised.
        """
        # The handler only wakes the loop: it may come in the middle of anything.
        with heard(lambda *_: self._loop.call_soon_threadsafe(self._interrupt)):
            # Not before: an interruption in between would lose the coroutine.
            task = self._main = self._loop.create_task(main(), name="run")
            try:
                result: T = self._loop.run_until_complete(task)
            except BaseException as error:
                # Whatever cleaning up raised: who interrupted wants the command to end.
                if self._interrupted:
                    raise KeyboardInterrupt from error
                raise
            finally:
                self._end_leftover()
        if self._interrupted:
            raise KeyboardInterrupt
        return result

    def _interrupt(self) -> None:
        first, self._interrupted = not self._interrupted, True
        if self._again is not None:
            self._again.cancel()
        # Whoever waits for those that it cancelled holds a further cancellation back until they
        # end; so that goes to all that were told to end and have not, not to the run alone.
        for task in asyncio.all_tasks(self._loop):
            if task is self._main or (not first and task.cancelling()):
                task.cancel()
        self._again = self._loop.call_later(PATIENCE_S if first else HASTE_S, self._interrupt)

    def _end_leftover(self) -> None:
        leftover = [task for task in asyncio.all_tasks(self._loop) if not task.done()]
        for task in leftover:
            task.cancel()
        for task in leftover:
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(_ended(task))
        if self._again is not None:
            self._again.cancel()


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
        """Run on a new stock event loop; an interruption cancels ``main`` and lets it clean up.

        A second one, or ``PATIENCE_S`` without an end, ends every wait of the cleaning up.

        Raises:
            KeyboardInterrupt: a signal arrived; everything of this run has been released.
        """
        loop: AwakeLoop | None = None
        try:
            with put_off():
                loop = AwakeLoop()
            return _Interruptible(loop).run(main)
        finally:
            if self._transport is not None:
                self._transport.close()
            if loop is not None:
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.close()

    async def settle(self) -> None:
        """Let callbacks that are ready run."""
        for _ in range(SETTLE_TURNS):
            await _turn()

    def waiting(self) -> tuple[str, ...]:
        """Live tasks by name."""
        return tuple(sorted(task.get_name() for task in asyncio.all_tasks() if not task.done()))

    def steps_begin(self) -> None:
        """Nothing is chosen here."""

    def steps_end(self) -> None:
        """Nothing is chosen here."""


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
