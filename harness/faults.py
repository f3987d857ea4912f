"""Faults on single sends of a frontend: hold them at a gate, or let them fail.

``FaultTransport`` wraps any transport, so a scenario means the same in simulation and over
real sockets. It tells requests (ADD, ABORT, UTILITY, START_DP_WAVE) from startup messages by
their type frame, so nothing of the startup is touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from client.protocol.ids import identity_from_rank
from client.protocol.messages import SUBSCRIBE_ALL, UNSUBSCRIBE_ALL, RequestType
from client.protocol.transport import (
    DEFAULT_OPTIONS,
    Socket,
    SocketKind,
    SocketOptions,
    Transport,
    TransportError,
)
from harness.scenario.model import LinkStep

Engine = int | Literal["all", "coordinator"]
FrameKind = Literal["any", "add", "abort", "utility"]
_REQUEST_TYPES = {kind.value: kind.name.lower() for kind in RequestType}
COORDINATOR = b""
"""Stands for the peer of a coordinator socket, where engines have their identity."""


@dataclass(frozen=True, slots=True)
class LinkFault:
    """What happens to the sends that match; exactly one of the last three is set.

    Attributes:
        engine: rank whose sends match; ``coordinator`` = all sends on XPUB and XSUB sockets.
        frames: type of the messages that match.
        hold: gate at which a send waits before anything left. Cancelled there, it never left.
        hold_after: gate at which a send waits once the message left.
        fail: text of the ``TransportError`` that the send raises.
    """

    engine: Engine = "all"
    frames: FrameKind = "any"
    hold: str | None = None
    hold_after: str | None = None
    fail: str | None = None

    def __post_init__(self) -> None:
        chosen = [self.hold, self.hold_after, self.fail]
        if sum(value is not None for value in chosen) != 1:
            msg = "a link fault is exactly one of hold, hold_after and fail"
            raise ValueError(msg)

    def matches(self, peer: bytes, kind: str) -> bool:
        """Whether it strikes a message of this type to this peer (identity, ``COORDINATOR``)."""
        if self.frames not in ("any", kind):
            return False
        if self.engine == "coordinator" or peer == COORDINATOR:
            return self.engine == "coordinator" and peer == COORDINATOR
        return self.engine == "all" or peer == identity_from_rank(self.engine)


class FaultTransport:
    """A ``Transport`` whose sends can be held or fail.

    Args:
        inner: what carries the messages.
        wait: waits for a gate by name; returns at once if it is open.
    """

    def __init__(self, inner: Transport, wait: Callable[[str], Awaitable[None]]) -> None:
        self._inner = inner
        self._wait = wait
        self._faults: list[LinkFault] = []
        self._held: dict[str, int] = {}
        self._held_total: dict[str, int] = {}
        self._watchers: list[tuple[str, int, asyncio.Future[None]]] = []
        self._last: dict[tuple[str, bytes], asyncio.Future[None]] = {}

    # --- faults ----------------------------------------------------------------------------

    def apply(self, step: LinkStep) -> None:
        """Carry out a scenario's step: add the fault that it names, or clear."""
        if step.clear:
            self.clear(step.engine)
            return
        self.add(LinkFault(step.engine, step.frames, step.hold, step.hold_after, step.fail))

    def add(self, fault: LinkFault) -> None:
        """Add a fault. Of several that match a send, the one added first strikes."""
        self._faults.append(fault)

    def clear(self, engine: Engine = "all") -> None:
        """Remove the faults of one engine; ``all`` removes every fault.

        Sends that are held stay held until their gate opens.
        """
        self._faults = [f for f in self._faults if engine not in ("all", f.engine)]

    def held(self, gate: str) -> int:
        """How many sends wait at ``gate`` now."""
        return self._held.get(gate, 0)

    def held_total(self, gate: str) -> int:
        """How many sends ever waited at ``gate``."""
        return self._held_total.get(gate, 0)

    async def held_at(self, gate: str, count: int = 1) -> None:
        """Wait until ``count`` sends are held at ``gate`` at once."""
        if self.held(gate) >= count:
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append((gate, count, reached))
        await reached

    # --- the send path ---------------------------------------------------------------------

    async def send(self, socket: Socket, frames: Sequence[bytes]) -> None:
        """Send through ``socket``, with whatever fault strikes first."""
        if not self._faults:
            await socket.send(frames)
            return
        fault, peer = self._strike(socket.kind, frames)
        if fault is None:
            await socket.send(frames)
        elif fault.fail is not None:
            raise TransportError(fault.fail)
        elif fault.hold is not None:
            await self._pass(fault.hold, peer, socket, frames)
        else:
            assert fault.hold_after is not None
            await socket.send(frames)
            await self._stay(fault.hold_after)

    def _strike(
        self, socket_kind: SocketKind, frames: Sequence[bytes]
    ) -> tuple[LinkFault | None, bytes]:
        kind: str | None = None
        peer = COORDINATOR
        if socket_kind is SocketKind.ROUTER and len(frames) > 1:
            peer, kind = frames[0], _REQUEST_TYPES.get(frames[1])
        elif socket_kind is SocketKind.XPUB and len(frames) > 1:
            kind = _REQUEST_TYPES.get(frames[0])
        elif socket_kind is SocketKind.XSUB and frames[0] not in (SUBSCRIBE_ALL, UNSUBSCRIBE_ALL):
            kind = "notice"
        if kind is None:
            return None, peer
        return next((f for f in self._faults if f.matches(peer, kind)), None), peer

    async def _pass(self, gate: str, peer: bytes, socket: Socket, frames: Sequence[bytes]) -> None:
        """Wait for the gate, then send; held sends to one peer leave in their own order."""
        key = (gate, peer)
        before = self._last.get(key)
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last[key] = gone
        try:
            await self._stay(gate)
            if before is not None and not before.done():
                await _until_done(before)
            await socket.send(frames)
        finally:
            # Cancelled while an earlier send is still held: who follows waits for that one.
            if before is not None and not before.done():
                before.add_done_callback(lambda _: _resolve(gone))
            else:
                _resolve(gone)
            if self._last.get(key) is gone and gone.done():
                del self._last[key]

    async def _stay(self, gate: str) -> None:
        self._held[gate] = self.held(gate) + 1
        self._held_total[gate] = self.held_total(gate) + 1
        still: list[tuple[str, int, asyncio.Future[None]]] = []
        for watcher in self._watchers:
            name, count, reached = watcher
            if name == gate and self.held(gate) >= count:
                _resolve(reached)
            elif not reached.done():
                still.append(watcher)
        self._watchers = still
        try:
            await self._wait(gate)
        finally:
            self._held[gate] -= 1

    # --- Transport -------------------------------------------------------------------------

    def endpoint(self, name: str) -> str:
        """Make a fresh address of the inner transport."""
        return self._inner.endpoint(name)

    async def bind(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket of the inner transport and bind it."""
        return FaultSocket(self, await self._inner.bind(kind, endpoint, options))

    async def connect(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket of the inner transport and connect it."""
        return FaultSocket(self, await self._inner.connect(kind, endpoint, options))

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()


class FaultSocket:
    """A socket whose sends pass through the faults."""

    def __init__(self, faults: FaultTransport, inner: Socket) -> None:
        self._faults = faults
        self._inner = inner
        self.recv: Callable[[], Coroutine[Any, Any, list[bytes]]] = inner.recv
        """Receive one message. The inner socket's own, without a coroutine round it."""

    @property
    def kind(self) -> SocketKind:
        """Its ZMQ type."""
        return self._inner.kind

    @property
    def endpoint(self) -> str:
        """The address it is bound or connected to."""
        return self._inner.endpoint

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send one message, unless a fault strikes."""
        await self._faults.send(self._inner, frames)

    def close(self) -> None:
        """Close the socket; a send that is held at a gate fails when the gate opens."""
        self._inner.close()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _until_done(future: asyncio.Future[None]) -> None:
    """Wait for a future of somebody else: cancelling the caller leaves it alone."""
    mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda _: _resolve(mine))
    await mine
