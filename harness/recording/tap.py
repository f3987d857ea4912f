"""Listens at the sockets of mock engines and writes at once.

``harness.capture.recording`` does the same for a run that ends by itself, and writes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from client.protocol.codec import Codec
from client.protocol.profiles import Profile
from client.protocol.transport import Socket, Transport
from harness.capture.recording import (
    FROM_ENGINE,
    INPUT,
    TO_ENGINE,
    PassingSocket,
    PassingTransport,
    SocketNames,
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
        self.names = SocketNames(addresses, Codec(profile))
        self._left = left
        self.sink = sink
        self.watches: list[Watch] = []

    def transport_of(self, rank: int) -> Transport:
        """Return the transport of one engine."""
        return _Transport(self, rank, self._transport)

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


class _Transport(PassingTransport):
    """A ``Transport`` of one engine."""

    def __init__(self, tap: Tap, rank: int, inner: Transport) -> None:
        super().__init__(rank, inner)
        self._tap = tap

    def wrapped(self, socket: Socket) -> Socket:
        name = self._tap.names.name(self._rank, socket.kind, socket.endpoint)
        if name == INPUT:
            self._tap.watch(socket)
        return _Socket(self._tap, self._rank, name, socket)


class _Socket(PassingSocket):
    """A socket whose messages are written down once they were sent or received.

    Nothing runs between a send and the line about it: these sockets never let a sender wait.
    """

    def __init__(self, tap: Tap, rank: int, name: str, inner: Socket) -> None:
        super().__init__(inner)
        self._tap = tap
        self._rank = rank
        self._name = name

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._inner.send(frames)
        self._tap.sink.take(self._rank, self._name, FROM_ENGINE, frames)

    async def recv(self) -> list[bytes]:
        frames = await self._inner.recv()
        self._tap.sink.take(self._rank, self._name, TO_ENGINE, frames)
        self._tap.names.learn(self._rank, self._name, TO_ENGINE, frames)
        return frames
