"""Listens at an engine's sockets: a transport that writes down what passes.

The tap sits between a mock engine and its transport, so it sees exactly what ZMQ hands over and
takes, whatever frontend is at the other end, and the engine does not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

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
from mock_engines.cluster import JoinAddresses

Direction = Literal["to-engine", "from-engine"]
TO_ENGINE: Direction = "to-engine"
FROM_ENGINE: Direction = "from-engine"

HANDSHAKE = "handshake"
INPUT = "input"
OUTPUT = "output"
COORDINATOR_INPUT = "coordinator-input"
COORDINATOR_OUTPUT = "coordinator-output"
SOCKETS = (HANDSHAKE, INPUT, OUTPUT, COORDINATOR_INPUT, COORDINATOR_OUTPUT)
"""Sockets of an engine, named as in INIT; ``input`` and ``output`` are the engine's."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message at one socket.

    Attributes:
        n: place in the order in which all messages passed, from 0.
        time_us: loop time, microseconds.
        engine: global rank.
        socket: one of ``SOCKETS``.
        frames: without the identity, which a DEALER does not see.
    """

    n: int
    time_us: int
    engine: int
    socket: str
    direction: Direction
    frames: tuple[bytes, ...]


@dataclass(slots=True)
class Passed:
    """One message as it passed, before the names of sockets are known."""

    engine: int
    kind: SocketKind
    endpoint: str
    direction: Direction
    time_us: int
    frames: tuple[bytes, ...]


@dataclass(slots=True)
class Tape:
    """All messages of one run, at all engines, in order. ``tap`` makes the transports."""

    profile: Profile
    _passed: list[Passed] = field(default_factory=list)
    _addresses: JoinAddresses = field(default_factory=JoinAddresses)

    def tap(self, rank: int, transport: Transport, addresses: JoinAddresses) -> Transport:
        """Return the transport of one engine; see ``harness.play.EngineTap``."""
        self._addresses = addresses
        return RecordingTransport(self, rank, transport)

    def add(
        self, engine: int, socket: Socket, direction: Direction, frames: Sequence[bytes]
    ) -> Passed:
        """Write one message down; returns what ``remove`` takes."""
        time_us = round(asyncio.get_running_loop().time() * 1_000_000)
        copies = tuple(bytes(frame) for frame in frames)
        passed = Passed(engine, socket.kind, socket.endpoint, direction, time_us, copies)
        self._passed.append(passed)
        return passed

    def remove(self, passed: Passed) -> None:
        """Forget a message that could not be sent."""
        self._passed = [other for other in self._passed if other is not passed]

    @property
    def passed(self) -> Sequence[Passed]:
        """The messages so far, in order."""
        return self._passed

    def frames(self) -> list[Frame]:
        """Return the messages with the names of their sockets, times from the first one on."""
        names = SocketNames(self._addresses, Codec(self.profile))
        start = self._passed[0].time_us if self._passed else 0
        found = []
        for n, passed in enumerate(self._passed):
            name = names.name(passed.engine, passed.kind, passed.endpoint)
            names.learn(passed.engine, name, passed.direction, passed.frames)
            found.append(
                Frame(
                    n=n,
                    time_us=passed.time_us - start,
                    engine=passed.engine,
                    socket=name,
                    direction=passed.direction,
                    frames=passed.frames,
                )
            )
        return found


class SocketNames:
    """Tells sockets of engines apart by their addresses, which the frontend says in INIT."""

    def __init__(self, addresses: JoinAddresses, codec: Codec) -> None:
        self._handshake = addresses.handshake
        self._codec = codec
        self._known = addresses.as_init()
        self.inits: dict[int, Init] = {}
        """Rank → the INIT that it got."""

    def name(self, rank: int, kind: SocketKind, endpoint: str) -> str:
        """What a socket of an engine is, one of ``SOCKETS``, by its type and address."""
        if kind is SocketKind.XSUB:
            return COORDINATOR_INPUT
        if kind is SocketKind.DEALER:
            return HANDSHAKE if endpoint == self._handshake else INPUT
        init = self.inits.get(rank, self._known)
        is_coordinator = init is not None and endpoint == init.coordinator_output
        return COORDINATOR_OUTPUT if is_coordinator else OUTPUT

    def learn(self, rank: int, name: str, direction: Direction, frames: Sequence[bytes]) -> None:
        """Take the addresses of an INIT, if this message is one."""
        if name == HANDSHAKE and direction == TO_ENGINE and len(frames) == 1:
            # Something else that a hostile frontend said is reported by the engine.
            with contextlib.suppress(DecodeError):
                self.inits[rank] = self._codec.decode_init(frames[0])


class PassingTransport:
    """A ``Transport`` of one engine around another one; ``wrapped`` says what becomes of a socket."""

    def __init__(self, rank: int, inner: Transport) -> None:
        self._rank = rank
        self._inner = inner

    def wrapped(self, socket: Socket) -> Socket:
        """The socket that the engine gets."""
        raise NotImplementedError

    def endpoint(self, name: str) -> str:
        """Make a fresh address of the inner transport."""
        return self._inner.endpoint(name)

    async def bind(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket of the inner transport and bind it."""
        return self.wrapped(await self._inner.bind(kind, endpoint, options))

    async def connect(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket of the inner transport and connect it."""
        return self.wrapped(await self._inner.connect(kind, endpoint, options))

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()


class PassingSocket:
    """The part of a socket around another one that only passes on."""

    def __init__(self, inner: Socket) -> None:
        self._inner = inner

    @property
    def kind(self) -> SocketKind:
        """Its ZMQ type."""
        return self._inner.kind

    @property
    def endpoint(self) -> str:
        """The address it is bound or connected to."""
        return self._inner.endpoint

    def close(self) -> None:
        """Close the socket."""
        self._inner.close()


class RecordingTransport(PassingTransport):
    """A ``Transport`` of one engine whose messages are written down."""

    def __init__(self, tape: Tape, rank: int, inner: Transport) -> None:
        super().__init__(rank, inner)
        self._tape = tape

    def wrapped(self, socket: Socket) -> Socket:
        """Write down what passes."""
        return RecordingSocket(self._tape, self._rank, socket)


class RecordingSocket(PassingSocket):
    """A socket whose messages are written down: sent ones before they leave."""

    def __init__(self, tape: Tape, rank: int, inner: Socket) -> None:
        super().__init__(inner)
        self._tape = tape
        self._rank = rank

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send one message. Written down first: the answer may be there before we go on."""
        passed = self._tape.add(self._rank, self._inner, FROM_ENGINE, frames)
        try:
            await self._inner.send(frames)
        except BaseException:
            self._tape.remove(passed)
            raise

    async def recv(self) -> list[bytes]:
        """Receive one message."""
        frames = await self._inner.recv()
        self._tape.add(self._rank, self._inner, TO_ENGINE, frames)
        return frames
