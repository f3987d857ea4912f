"""How an engine joins a frontend: the startup sequence, with the ways to get it wrong.

As a handshake peer: HELLO, INIT, sockets, subscription, registration, gate, READY. Bootstrapped:
the same without the handshake socket, since the addresses are known.

Source: vLLM ``v1/engine/core.py`` (``startup_handshake``, ``process_input_sockets``);
protocol page, section 3.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from client.protocol.codec import Codec
from client.protocol.ids import identity_from_rank
from client.protocol.messages import READY_GATE, SUBSCRIBE_ALL, Hello, Init, Ready
from client.protocol.transport import Socket, SocketKind, SocketOptions, Transport
from mock_engines import aio, events
from mock_engines.behaviours.model import Join
from mock_engines.frames import parse_frames
from mock_engines.outlets import Sockets
from mock_engines.ready import ready_response

OUTPUT_LINGER_MS = 4000
"""How long unsent outputs outlive an engine. Source: vLLM ``process_output_sockets``."""


@dataclass(frozen=True, slots=True)
class JoinAddresses:
    """Where to join. With ``handshake`` the frontend tells the rest in INIT.

    Without it the engine is bootstrapped and needs ``input`` and ``output``.

    Attributes:
        further: input and output address of each further frontend, by client index from 1.
    """

    handshake: str | None = None
    input: str | None = None
    output: str | None = None
    coordinator_input: str | None = None
    coordinator_output: str | None = None
    further: Sequence[Sequence[str]] = ()

    def check(self) -> None:
        """Raise ``ValueError`` when nobody could join with these."""
        if self.handshake is None and (self.input is None or self.output is None):
            msg = "an engine needs a handshake address, or an input and an output address"
            raise ValueError(msg)
        if (self.coordinator_input is None) != (self.coordinator_output is None):
            msg = "coordinator input and output address are given together or not at all"
            raise ValueError(msg)
        if self.further and self.input is None:
            msg = "further frontends need the input and output address of the first"
            raise ValueError(msg)

    def as_init(self) -> Init | None:
        """Return what is known without INIT, ``None`` if that is not enough."""
        if self.input is None or self.output is None:
            return None
        return Init(
            (self.input, *(pair[0] for pair in self.further)),
            (self.output, *(pair[1] for pair in self.further)),
            self.coordinator_input,
            self.coordinator_output,
        )


def identity_of(join: Join, rank: int) -> bytes:
    """What an engine announces: its rank, or what its script says."""
    return identity_from_rank(rank) if join.identity is None else bytes.fromhex(join.identity)


class Joining(msgspec.Struct):
    """One attempt of one engine to join. Sockets belong to ``sockets`` once they are open.

    ``lingers``: outputs that are under way outlive the engine. ``running``: returns when the
    engine is not stalled.
    """

    transport: Transport
    codec: Codec
    join: Join
    rank: int
    addresses: JoinAddresses
    data_parallel_size: int | None
    sockets: Sockets
    emit: events.Observer
    lingers: bool = True
    running: Callable[[], Awaitable[None]] = aio.at_once

    @property
    def identity(self) -> bytes:
        """What the engine announces."""
        return identity_of(self.join, self.rank)

    async def run(self) -> Init | None:
        """Join for the first time; returns the addresses that were used, if there were any."""
        await self.running()
        known = self.addresses.as_init()
        if self.addresses.handshake is not None:
            handshake = await self._dealer(self.addresses.handshake)
            self.sockets.handshake = handshake
            if await self._say_hello(handshake):
                known = await self._await_init(handshake)
        if known is not None:
            await self.connect(known)
            await self._register()
        if self.join.ready_before_gate:
            await self._say_ready()
        await self._await_gate()
        if not self.join.ready_before_gate:
            await self._say_ready()
        return known

    async def connect(self, init: Init) -> None:
        """Open the data-plane sockets, and subscribe at the coordinator if there is one."""
        for address in init.outputs:
            self.sockets.outputs.append(await self._push(address))
        for address in init.inputs:
            self.sockets.inputs.append(await self._dealer(address))
        if init.coordinator_input is not None and init.coordinator_output is not None:
            self.sockets.coordinator_output = await self._push(init.coordinator_output)
            socket = await self.transport.connect(SocketKind.XSUB, init.coordinator_input)
            self.sockets.coordinator_input = socket
            await self._subscribe(socket)

    async def return_with(self, init: Init) -> None:
        """Join again after startup: connect and register.

        Nobody answers a late HELLO, and the gate of a Rust coordinator is not opened twice.
        """
        await self.connect(init)
        await self._register()

    async def _dealer(self, address: str) -> Socket:
        options = SocketOptions(identity=self.identity)
        return await self.transport.connect(SocketKind.DEALER, address, options)

    async def _push(self, address: str) -> Socket:
        options = SocketOptions(linger_ms=OUTPUT_LINGER_MS if self.lingers else 0)
        return await self.transport.connect(SocketKind.PUSH, address, options)

    async def _say_hello(self, handshake: Socket) -> bool:
        if self.join.hello_raw is not None:
            await handshake.send(parse_frames(self.join.hello_raw))
            return True
        if "hello" in self.join.skip or self.join.hello_times == 0:
            return False
        for _ in range(self.join.hello_times):
            await handshake.send([self.codec.encode_hello(Hello())])
        return True

    async def _await_init(self, handshake: Socket) -> Init:
        while True:
            frames = await handshake.recv()
            await self.running()
            if len(frames) == 1:
                return self.codec.decode_init(frames[0])
            self._unknown("INIT", frames)

    async def _subscribe(self, socket: Socket) -> None:
        if self.join.subscribe_raw is not None:
            await socket.send(parse_frames(self.join.subscribe_raw))
            return
        if "subscribe" not in self.join.skip:
            for _ in range(self.join.subscribe_times):
                await socket.send([SUBSCRIBE_ALL])

    async def _register(self) -> None:
        if "register" in self.join.skip:
            return
        if self.join.ready_raw is not None:
            body = bytes.fromhex(self.join.ready_raw)
        else:
            # MoE engines know the size; a dense one behaves as if it were alone.
            moe = self.sockets.coordinator_input is not None
            size = self.data_parallel_size if moe and self.data_parallel_size else 1
            response = ready_response(
                self.codec.profile, self.join, rank=self.rank, data_parallel_size=size
            )
            body = self.codec.encode_ready_response(response)
        for socket in self.sockets.inputs:
            for _ in range(self.join.register_times):
                await socket.send([body])

    async def _await_gate(self) -> None:
        socket = self.sockets.coordinator_input
        while socket is not None:
            frames = await socket.recv()
            await self.running()
            if frames == [READY_GATE]:
                self.emit(events.GateOpened(self.rank))
                return
            self._unknown("READY of the coordinator", frames)

    async def _say_ready(self) -> None:
        handshake = self.sockets.handshake
        if handshake is not None and "ready" not in self.join.skip:
            await handshake.send([self.codec.encode_ready(Ready())])

    def _unknown(self, awaited: str, frames: Sequence[bytes]) -> None:
        seen = " ".join(frame[:16].hex() or "(empty)" for frame in frames)
        self.emit(events.UnknownSeen(self.rank, f"{seen} while waiting for {awaited}"))


async def stay_away() -> None:
    """What an engine does that never joins."""
    await aio.never()
