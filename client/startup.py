"""Startup, carried out: opens sockets, runs the handshake, returns what is connected.

Source: Rust ``engine-core-client/src/transport.rs``; protocol page, section 3.3 (client order).
"""

from __future__ import annotations

import asyncio
from typing import assert_never

import msgspec

from client.aio import Deadline, DeadlineExceeded
from client.config import Bootstrapped, ClientConfig, HandshakeOwner, InProcessCoordinator
from client.errors import Transport
from client.handshake import Effect, HandshakeState, OpenGate, SendInit, Stage
from client.protocol.codec import Codec
from client.protocol.ids import identity_from_rank
from client.protocol.messages import READY_GATE, SUBSCRIBE_ALL, ConnectedEngine, Init
from client.protocol.transport import (
    DEFAULT_OPTIONS,
    Socket,
    SocketKind,
    SocketOptions,
    TransportError,
)
from client.protocol.transport import Transport as Sockets

ROUTER_OPTIONS = SocketOptions(mandatory=True)
INPUT_OPTIONS = SocketOptions(mandatory=True, handover=True)
"""A rank that returns takes its identity over, also before its old connection has ended."""
XPUB_OPTIONS = SocketOptions(xpub_verbose=True)


class Connected(msgspec.Struct, frozen=True):
    """Result of startup.

    Attributes:
        coordinator: sockets of an in-process coordinator: publisher, notices.
        front: socket to an external coordinator.
        sockets: all that are open, oldest first.
    """

    engines: tuple[ConnectedEngine, ...]
    input_socket: Socket
    output_socket: Socket
    coordinator: tuple[Socket, Socket] | None
    front: Socket | None
    sockets: list[Socket]


class Startup:
    """One attempt to connect. Closes what it opened when it fails or is cancelled."""

    def __init__(
        self,
        config: ClientConfig,
        transport: Sockets,
        codec: Codec,
        state: type[HandshakeState] = HandshakeState,
    ) -> None:
        self._config = config
        self._transport = transport
        self._codec = codec
        self._state = state
        self._sockets: list[Socket] = []

    async def run(self) -> Connected:
        """Connect.

        Raises:
            StartupError: a stage timed out or a message was invalid.
            Decode: a body was invalid.
            Transport: a socket could not be opened or failed.
        """
        deadline = Deadline()
        try:
            match mode := self._config.mode:
                case HandshakeOwner():
                    return await self._own_handshake(mode, deadline)
                case Bootstrapped():
                    return await self._bootstrap(mode, deadline)
                case _:
                    assert_never(mode)
        except TransportError as error:
            self._abandon()
            raise Transport(str(error)) from error
        except BaseException:
            self._abandon()
            raise
        finally:
            deadline.close()

    def _abandon(self) -> None:
        while self._sockets:
            self._sockets.pop().close()

    async def _bind(
        self, kind: SocketKind, address: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        socket = await self._transport.bind(kind, address, options)
        self._sockets.append(socket)
        return socket

    async def _own_handshake(self, mode: HandshakeOwner, deadline: Deadline) -> Connected:
        input_socket = await self._bind(SocketKind.ROUTER, mode.input_address, INPUT_OPTIONS)
        output_socket = await self._bind(SocketKind.PULL, mode.output_address)
        coordinator: tuple[Socket, Socket] | None = None
        if isinstance(mode.coordinator, InProcessCoordinator):
            coordinator = (
                await self._bind(SocketKind.XPUB, mode.coordinator.input_address, XPUB_OPTIONS),
                await self._bind(SocketKind.PULL, mode.coordinator.output_address),
            )
        handshake = await self._bind(SocketKind.ROUTER, mode.handshake_address, ROUTER_OPTIONS)
        init = self._codec.encode_init(
            Init(
                inputs=(input_socket.endpoint,),
                outputs=(output_socket.endpoint,),
                coordinator_input=None if coordinator is None else coordinator[0].endpoint,
                coordinator_output=None if coordinator is None else coordinator[1].endpoint,
            )
        )
        state = self._state(
            self._codec,
            self._config.profile,
            engine_count=mode.engine_count,
            coordinator=coordinator is not None,
        )
        gate = None if coordinator is None else coordinator[0]
        while state.stage is not Stage.DONE:
            match state.stage:
                case Stage.SUBSCRIPTIONS:
                    assert gate is not None
                    frames = await self._receive(gate, state, deadline)
                    effects = state.on_subscription(frames)
                case Stage.REGISTRATION:
                    frames = await self._receive(input_socket, state, deadline)
                    effects = state.on_registration(frames)
                case _:
                    frames = await self._receive(handshake, state, deadline)
                    effects = state.on_handshake(frames)
            for effect in effects:
                await self._carry_out(effect, handshake, gate, init)
        self._sockets.remove(handshake)
        handshake.close()
        return Connected(
            state.engines(), input_socket, output_socket, coordinator, None, self._sockets
        )

    @staticmethod
    async def _carry_out(
        effect: Effect, handshake: Socket, gate: Socket | None, init: bytes
    ) -> None:
        match effect:
            case SendInit(identity):
                await handshake.send([identity, init])
            case OpenGate():
                assert gate is not None
                await gate.send([READY_GATE])
            case _:
                assert_never(effect)

    async def _receive(
        self, socket: Socket, state: HandshakeState, deadline: Deadline
    ) -> list[bytes]:
        """Receive one message; a stage may take the configured time for each."""
        deadline.begin(self._config.ready_timeout_s)
        try:
            return await socket.recv()
        except asyncio.CancelledError:
            try:
                deadline.check()
            except DeadlineExceeded:
                raise state.timeout_error(self._config.ready_timeout_s) from None
            raise
        finally:
            deadline.end()

    async def _bootstrap(self, mode: Bootstrapped, deadline: Deadline) -> Connected:
        input_socket = await self._bind(SocketKind.ROUTER, mode.input_address, INPUT_OPTIONS)
        output_socket = await self._bind(SocketKind.PULL, mode.output_address)
        start, count = mode.engine_start_index, mode.engine_count
        state = self._state(
            self._codec,
            self._config.profile,
            expected=[identity_from_rank(rank) for rank in range(start, start + count)],
        )
        while state.stage is not Stage.DONE:
            state.on_registration(await self._receive(input_socket, state, deadline))
        engines = state.engines()
        front: Socket | None = None
        address = coordinator_address(engines, mode.coordinator_address)
        if address is not None:
            front = await self._transport.connect(SocketKind.XSUB, address)
            self._sockets.append(front)
            await front.send([SUBSCRIBE_ALL])
        return Connected(engines, input_socket, output_socket, None, front, self._sockets)


def coordinator_address(engines: tuple[ConnectedEngine, ...], configured: str | None) -> str | None:
    """The external coordinator: the first ``dp_stats_address`` that an engine reports wins."""
    for engine in engines:
        reported = engine.ready.get("dp_stats_address")
        if isinstance(reported, str):
            return reported
    return configured
