"""One lane of the proxy: the data plane between some engines and the frontends.

An engine that says HELLO gets a lane of its own, so that each message is known to be its. Engines
that are given addresses share one. Frames pass as they are, in order, socket by socket::

    engine                          lane                        frontend, coordinator
    DEALER  ── registration ──►  ROUTER · DEALER of that id ──► ROUTER   input
            ◄── ADD, ABORT … ──
    PUSH    ── outputs ───────►  PULL · PUSH ─────────────────► PULL     output
    XSUB    ── subscription ──►  XPUB · XSUB ─────────────────► XPUB     coordinator input
            ◄── START_DP_WAVE ──
    PUSH    ── notices ───────►  PULL · PUSH ─────────────────► PULL     coordinator output
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgpack

from client.aio import TaskSet
from client.protocol.messages import ENGINE_CORE_DEAD
from client.protocol.transport import (
    Socket,
    SocketClosedError,
    SocketKind,
    SocketOptions,
    Transport,
    UnknownPeerError,
)
from harness.capture.file import UNKNOWN_ENGINE
from harness.capture.recording import (
    COORDINATOR_INPUT,
    COORDINATOR_OUTPUT,
    FROM_ENGINE,
    INPUT,
    OUTPUT,
    TO_ENGINE,
)
from harness.recording.init_addresses import Addresses
from harness.recording.sink import Sink
from harness.recording.watching import Watch, drained

LINGER_MS = 4_000
"""How long what has been taken from one side outlives the end of the other."""
ROUTER = SocketOptions(mandatory=True, handover=True)
LINGERS = SocketOptions(linger_ms=LINGER_MS)


def remove_socket_file(endpoint: str) -> None:
    """Remove the file of a socket of ours that is closed; libzmq leaves it."""
    path = endpoint.removeprefix("ipc://")
    if path != endpoint and not path.startswith("@"):
        Path(path).unlink(missing_ok=True)


def rank_of(identity: bytes) -> int:
    """The rank that an identity names; of a wrong length: the number that it is."""
    return int.from_bytes(identity, "little")


class Lane:
    """Relays. ``open`` binds, and from then on everything passes until ``close``.

    Args:
        transport: real sockets.
        sink: is told of each message.
        upstream: where frontends and coordinator are.
        ranks: of the engines, where that is known.
        changed: called when somebody has come or gone.
        failed: told of an error of a socket.
    """

    def __init__(
        self,
        transport: Transport,
        sink: Sink,
        upstream: Addresses,
        ranks: Sequence[int],
        changed: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._transport = transport
        self._sink = sink
        self._upstream = upstream
        self._ranks = list(ranks)
        self._changed = changed
        self._tasks = TaskSet(lambda _name, error: failed(error))
        self._sockets: list[Socket] = []
        self._bound: list[Socket] = []
        self._engine_side: Watch | None = None
        self._frontend_side: list[Watch] = []
        self._identities: dict[bytes, None] = {}
        self._subscribed = 0
        self.undelivered = 0
        self.closed = False

    # --- opening ----------------------------------------------------------------------------

    async def open(self, wanted: Addresses) -> Addresses:
        """Bind and connect; returns where the engines are to connect.

        Args:
            wanted: addresses to bind; a port may be ``*``.

        Raises:
            TransportError: an address cannot be bound.
        """
        inputs, outputs = [], []
        for place, address in enumerate(wanted.inputs):
            router = await self._bind(SocketKind.ROUTER, address, ROUTER)
            if place == 0:
                self._engine_side = Watch(router, self._changed)
            self._spawn(self._registrations(router, place), f"input {place}")
            inputs.append(router.endpoint)
        for place, address in enumerate(wanted.outputs):
            outputs.append(await self._one_way(address, self._upstream.outputs[place], OUTPUT))
        notices = publishes = None
        if wanted.coordinator_input is not None and wanted.coordinator_output is not None:
            there = self._upstream
            assert there.coordinator_input is not None
            assert there.coordinator_output is not None
            notices = await self._one_way(
                wanted.coordinator_output, there.coordinator_output, COORDINATOR_OUTPUT
            )
            publishes = await self._publishes(wanted.coordinator_input, there.coordinator_input)
        return Addresses(tuple(inputs), tuple(outputs), publishes, notices)

    async def _bind(
        self, kind: SocketKind, address: str, options: SocketOptions = LINGERS
    ) -> Socket:
        socket = await self._transport.bind(kind, address, options)
        self._sockets.append(socket)
        self._bound.append(socket)
        return socket

    async def _connect(
        self, kind: SocketKind, address: str, options: SocketOptions = LINGERS
    ) -> Socket:
        socket = await self._transport.connect(kind, address, options)
        self._sockets.append(socket)
        return socket

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.spawn(work, name=name)

    # --- input ------------------------------------------------------------------------------

    async def _registrations(self, router: Socket, place: int) -> None:
        """Pass on what engines say, each over a connection of its own identity."""
        upstream: dict[bytes, Socket] = {}
        while (frames := await received(router)) is not None:
            identity, *parts = frames
            if identity not in upstream:
                options = SocketOptions(identity=identity, linger_ms=LINGER_MS)
                dealer = await self._connect(
                    SocketKind.DEALER, self._upstream.inputs[place], options
                )
                upstream[identity] = dealer
                self._identities.setdefault(identity)
                self._frontend_side.append(Watch(dealer, self._changed))
                name = f"input {place} of {identity.hex()}"
                self._spawn(self._requests(dealer, router, identity), name)
            self._sink.take(rank_of(identity), INPUT, FROM_ENGINE, parts)
            await upstream[identity].send(parts)

    async def _requests(self, dealer: Socket, router: Socket, identity: bytes) -> None:
        """Pass on what a frontend tells one engine."""
        while (frames := await received(dealer)) is not None:
            self._sink.take(rank_of(identity), INPUT, TO_ENGINE, frames)
            try:
                await router.send([identity, *frames])
            except UnknownPeerError:
                self.undelivered += 1

    # --- the rest ---------------------------------------------------------------------------

    async def _one_way(self, wanted: str, there: str, name: str) -> str:
        """Pass on what engines push; returns where they push to."""
        pull = await self._bind(SocketKind.PULL, wanted)
        push = await self._connect(SocketKind.PUSH, there)
        self._spawn(self._pushed(pull, push, name), name)
        return pull.endpoint

    async def _pushed(self, pull: Socket, push: Socket, name: str) -> None:
        while (frames := await received(pull)) is not None:
            self._sink.take(self._sender(frames), name, FROM_ENGINE, frames)
            await push.send(frames)

    def _sender(self, frames: Sequence[bytes]) -> int:
        """Which engine sent outputs: the only one, or the one that they name."""
        if len(self._ranks) == 1:
            return self._ranks[0]
        if frames[0] == ENGINE_CORE_DEAD:
            return UNKNOWN_ENGINE
        try:
            unpacker = msgpack.Unpacker(max_buffer_size=0)
            unpacker.feed(frames[0])
            unpacker.read_array_header()
            index = unpacker.unpack()
        except (ValueError, msgpack.UnpackException):
            return UNKNOWN_ENGINE
        return index if isinstance(index, int) and index in self._ranks else UNKNOWN_ENGINE

    async def _publishes(self, wanted: str, there: str) -> str:
        """Pass on subscriptions and what the coordinator publishes; returns where it does."""
        xpub = await self._bind(SocketKind.XPUB, wanted, SocketOptions(xpub_verbose=True))
        xsub = await self._connect(SocketKind.XSUB, there)
        self._spawn(self._subscriptions(xpub, xsub), "subscriptions")
        self._spawn(self._published(xsub, xpub), COORDINATOR_INPUT)
        return xpub.endpoint

    async def _subscriptions(self, xpub: Socket, xsub: Socket) -> None:
        while (frames := await received(xpub)) is not None:
            # Subscriptions do not say whose they are, and all are alike: any order is right.
            place = self._subscribed % len(self._ranks) if self._ranks else 0
            self._subscribed += 1
            rank = self._ranks[place] if self._ranks else UNKNOWN_ENGINE
            self._sink.take(rank, COORDINATOR_INPUT, FROM_ENGINE, frames)
            await xsub.send(frames)

    async def _published(self, xsub: Socket, xpub: Socket) -> None:
        while (frames := await received(xsub)) is not None:
            for rank in self._ranks or [UNKNOWN_ENGINE]:
                self._sink.take(rank, COORDINATOR_INPUT, TO_ENGINE, frames)
            await xpub.send(frames)

    # --- the end ----------------------------------------------------------------------------

    @property
    def registered(self) -> tuple[int, ...]:
        """Ranks that have registered at a frontend through this lane."""
        return tuple(rank_of(identity) for identity in self._identities)

    @property
    def engines_gone(self) -> bool:
        """Whether all engines that came are gone."""
        watch, came = self._engine_side, len(self._identities)
        return watch is not None and watch.gone and 0 < came <= watch.departed

    @property
    def frontends_gone(self) -> bool:
        """Whether every frontend has left."""
        return bool(self._frontend_side) and all(watch.gone for watch in self._frontend_side)

    async def drain(self) -> None:
        """Return when all that has arrived was passed on."""
        await drained(lambda: self._sockets)

    async def close(self) -> None:
        """Stop relaying; what was taken still leaves. Idempotent."""
        self.closed = True
        await self._tasks.close()
        for watch in [self._engine_side, *self._frontend_side]:
            if watch is not None:
                watch.stop()
        for socket in self._sockets:
            socket.close()
        for socket in self._bound:
            remove_socket_file(socket.endpoint)


async def received(socket: Socket) -> list[bytes] | None:
    """The next message, ``None`` when the socket is closed."""
    try:
        return await socket.recv()
    except SocketClosedError:
        return None
