"""Runs a recording until somebody ends it: mock engines with taps, or the proxy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from client.aio import resolve
from client.protocol.profiles import Profile
from client.transports.sockets import ZmqTransport
from harness.interruption import listened
from harness.recording.proxy import FRONTEND, Plan, Proxy
from harness.recording.sink import Sink
from harness.recording.tap import Tap
from harness.recording.watching import drained
from mock_engines import events
from mock_engines.behaviours.model import EngineSpec
from mock_engines.cluster import Cluster, JoinAddresses
from mock_engines.gates import Gates

INTERRUPTED = "interrupted"
TIME = "the time was over"
FAILED = "it failed"
Say = Callable[[str], object]


@dataclass(slots=True)
class Ended:
    """How a recording ended.

    Attributes:
        reason: one of the words above, or of ``harness.recording.proxy``.
        joined: ranks that took part.
        notes: what the user should know.
        failure: what broke, if something did.
    """

    reason: str = ""
    joined: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list)
    failure: BaseException | None = None


class Until:
    """What ends a recording from outside: a signal, the time, or whoever calls ``end``."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reason = ""

    def end(self, reason: str) -> None:
        """End it; the first reason counts."""
        self.reason = self.reason or reason
        resolve(self._over)

    async def wait(self) -> None:
        """Return when it is to end."""
        with self._signals():
            timer = None
            if self._seconds is not None:
                timer = asyncio.get_running_loop().call_later(self._seconds, self.end, TIME)
            try:
                await self._over
            finally:
                if timer is not None:
                    timer.cancel()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = listened()
        for signum in signals:
            loop.add_signal_handler(signum, self.end, INTERRUPTED)
        try:
            yield
        finally:
            for signum in signals:
                loop.remove_signal_handler(signum)


@dataclass(frozen=True, slots=True)
class Engines:
    """Mock engines that record.

    Attributes:
        waves: as ``Cluster`` takes it.
        lines: makes what opens gates by hand, or ``None``.
    """

    profile: Profile
    ranks: range
    addresses: JoinAddresses
    specs: Sequence[EngineSpec]
    waves: str
    observer: events.Observer
    lines: Callable[[Gates], contextlib.AbstractContextManager[None]]


async def record_engines(setup: Engines, sink: Sink, seconds: float | None) -> Ended:
    """Let mock engines join a frontend and record what passes.

    Raises:
        ValueError: behaviours, ranks or addresses with which no engine can be.
    """
    until, ended = Until(seconds), Ended()
    transport, gates = ZmqTransport(), Gates()
    tap = Tap(transport, setup.profile, setup.addresses, sink, lambda: until.end(FRONTEND))
    try:
        cluster = Cluster(
            transport,
            setup.profile,
            setup.ranks,
            setup.specs,
            setup.addresses,
            waves="auto" if setup.waves == "auto" else "script",
            gates=gates,
            observer=setup.observer,
            real_peer=True,
            on_failure=lambda _error: until.end(FAILED),
            transport_of=tap.transport_of,
        )
        cluster.start()
        try:
            with setup.lines(gates):
                await until.wait()
            ended.joined = tuple(rank for rank in setup.ranks if tap.names.inits.get(rank)
                                 or cluster.has_joined(rank))  # fmt: skip
            await drained(lambda: [watch.socket for watch in tap.watches])
        finally:
            tap.stop()
            ended.failure = await _stopped(cluster)
    finally:
        transport.close()
    ended.reason = until.reason
    return ended


async def _stopped(cluster: Cluster) -> BaseException | None:
    try:
        await cluster.stop()
    except Exception as error:  # noqa: BLE001  (told to the user, with what was recorded)
        return error
    return None


async def record_proxy(plan: Plan, sink: Sink, seconds: float | None, say: Say) -> Ended:
    """Stand between a frontend and engines, and record what passes.

    Raises:
        TransportError: an address of ours cannot be bound.
    """
    until = Until(seconds)
    transport = ZmqTransport()
    proxy = Proxy(transport, plan, sink, say)
    try:
        await proxy.start()
        watcher = asyncio.get_running_loop().create_task(_follow(proxy, until))
        try:
            await until.wait()
            joined = proxy.joined
        finally:
            watcher.cancel()
            await proxy.stop()
    finally:
        transport.close()
    failed = proxy.failure
    return Ended(FAILED if failed else until.reason, joined, list(proxy.notes), failed)


async def _follow(proxy: Proxy, until: Until) -> None:
    await proxy.ended()
    until.end(proxy.reason)
