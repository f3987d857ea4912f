"""Startup, carried out: opens sockets, runs the handshake, returns what is connected.

Source: Rust ``engine-core-client/src/transport.rs``; protocol page, section 3.3 (client order).
"""

from __future__ import annotations

from dataclasses import dataclass

from client.aio import DeadlineExceeded, with_deadline
from client.config import Bootstrapped, ClientConfig, HandshakeOwner, InProcessCoordinator
from client.errors import Transport
from client.handshake import HandshakeState, OpenGate, SendInit, Stage
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


@dataclass(frozen=True, slots=True)
class Connected:
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
        try:
            match self._config.mode:
                case HandshakeOwner() as mode:
                    return await self._own_handshake(mode)
                case Bootstrapped() as mode:
                    return await self._bootstrap(mode)
        except TransportError as error:
            self._abandon()
            raise Transport(str(error)) from error
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        while self._sockets:
            self._sockets.pop().close()

    async def _bind(
        self, kind: SocketKind, address: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        socket = await self._transport.bind(kind, address, options)
        self._sockets.append(socket)
        return socket

    async def _own_handshake(self, mode: HandshakeOwner) -> Connected:
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
            await self._step(state, handshake, gate, input_socket, init)
        self._sockets.remove(handshake)
        handshake.close()
        return Connected(
            state.engines(), input_socket, output_socket, coordinator, None, self._sockets
        )

    async def _step(
        self,
        state: HandshakeState,
        handshake: Socket,
        gate: Socket | None,
        input_socket: Socket,
        init: bytes,
    ) -> None:
        """Receive one message on the socket of the stage, and act on it."""
        match state.stage:
            case Stage.HELLO | Stage.READY:
                effects = state.on_handshake(await self._receive(handshake, state))
            case Stage.SUBSCRIPTIONS:
                assert gate is not None
                effects = state.on_subscription(await self._receive(gate, state))
            case _:
                effects = state.on_registration(await self._receive(input_socket, state))
        for effect in effects:
            match effect:
                case SendInit(identity):
                    await handshake.send([identity, init])
                case OpenGate():
                    assert gate is not None
                    await gate.send([READY_GATE])

    async def _receive(self, socket: Socket, state: HandshakeState) -> list[bytes]:
        timeout_s = self._config.ready_timeout_s
        try:
            return await with_deadline(
                socket.recv(), timeout_s, name=f"startup {state.stage.value}"
            )
        except DeadlineExceeded:
            raise state.timeout_error(timeout_s) from None

    async def _bootstrap(self, mode: Bootstrapped) -> Connected:
        input_socket = await self._bind(SocketKind.ROUTER, mode.input_address, INPUT_OPTIONS)
        output_socket = await self._bind(SocketKind.PULL, mode.output_address)
        start, count = mode.engine_start_index, mode.engine_count
        state = self._state(
            self._codec,
            self._config.profile,
            expected=[identity_from_rank(rank) for rank in range(start, start + count)],
        )
        while state.stage is not Stage.DONE:
            state.on_registration(await self._receive(input_socket, state))
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
