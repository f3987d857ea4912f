"""Listens at the sockets of mock engines and writes at once.

``harness.capture.recording`` does the same for a run that ends by itself, and writes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from client.protocol.codec import Codec, DecodeError
from client.protocol.messages import Init
from client.protocol.profiles import Profile
from client.protocol.transport import (
    DEFAULT_OPTIONS,
    Socket,
    SocketKind,
    SocketOptions,
    Transport,
)
from harness.capture.recording import (
    COORDINATOR_INPUT,
    COORDINATOR_OUTPUT,
    FROM_ENGINE,
    HANDSHAKE,
    INPUT,
    OUTPUT,
    TO_ENGINE,
)
from harness.recording.sink import Sink
from harness.recording.watching import Watch
from mock_engines.cluster import JoinAddresses


class Tap:
    """The taps at all engines of a session.

    Args:
        transport: of the engines; real sockets.
        left: called when the frontend has gone from every input socket.
    """

    def __init__(
        self,
        transport: Transport,
        profile: Profile,
        addresses: JoinAddresses,
        sink: Sink,
        left: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._codec = Codec(profile)
        self._addresses = addresses
        self._left = left
        self.sink = sink
        self.watches: list[Watch] = []
        self.inits: dict[int, Init] = {}

    def transport_of(self, rank: int) -> Transport:
        """Return the transport of one engine."""
        return _Transport(self, rank, self._transport)

    def name(self, rank: int, kind: SocketKind, endpoint: str) -> str:
        """Tell what a socket of an engine is, by its type and address."""
        if kind is SocketKind.XSUB:
            return COORDINATOR_INPUT
        if kind is SocketKind.DEALER:
            return HANDSHAKE if endpoint == self._addresses.handshake else INPUT
        init = self.inits.get(rank, self._addresses.as_init())
        is_coordinator = init is not None and endpoint == init.coordinator_output
        return COORDINATOR_OUTPUT if is_coordinator else OUTPUT

    def learn(self, rank: int, frames: Sequence[bytes]) -> None:
        """Take the addresses of an INIT."""
        try:
            self.inits[rank] = self._codec.decode_init(frames[0])
        except DecodeError:
            return  # the engine reports it

    def watch(self, socket: Socket) -> None:
        """Notice when the frontend leaves an input socket."""
        self.watches.append(Watch(socket, self._look))

    def _look(self) -> None:
        open_ones = [watch for watch in self.watches if not watch.socket.closed]
        if open_ones and all(watch.gone for watch in open_ones):
            self._left()

    def stop(self) -> None:
        """Watch no more."""
        for watch in self.watches:
            watch.stop()


class _Transport:
    """A ``Transport`` of one engine."""

    def __init__(self, tap: Tap, rank: int, inner: Transport) -> None:
        self._tap = tap
        self._rank = rank
        self._inner = inner

    def endpoint(self, name: str) -> str:
        return self._inner.endpoint(name)

    async def bind(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket that is none of the protocol's."""
        return await self._inner.bind(kind, endpoint, options)

    async def connect(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        inner = await self._inner.connect(kind, endpoint, options)
        name = self._tap.name(self._rank, kind, endpoint)
        if name == INPUT:
            self._tap.watch(inner)
        return _Socket(self._tap, self._rank, name, inner)

    def close(self) -> None:
        self._inner.close()


class _Socket:
    """A socket whose messages are written down once they were sent or received.

    Nothing runs between a send and the line about it: these sockets never let a sender wait.
    """

    def __init__(self, tap: Tap, rank: int, name: str, inner: Socket) -> None:
        self._tap = tap
        self._rank = rank
        self._name = name
        self._inner = inner

    @property
    def kind(self) -> SocketKind:
        return self._inner.kind

    @property
    def endpoint(self) -> str:
        return self._inner.endpoint

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._inner.send(frames)
        self._tap.sink.take(self._rank, self._name, FROM_ENGINE, frames)

    async def recv(self) -> list[bytes]:
        frames = await self._inner.recv()
        self._tap.sink.take(self._rank, self._name, TO_ENGINE, frames)
        if self._name == HANDSHAKE and len(frames) == 1:
            self._tap.learn(self._rank, frames)
        return frames

    def close(self) -> None:
        self._inner.close()
