"""Stands between a frontend and its engines: relays the handshake, and opens the lanes.

With a handshake the engines come to us: each HELLO goes on to the frontend over a connection with
the engine's identity, and the INIT that comes back is given to the engine with addresses of a lane
of ours. INIT is the one message that does not pass as it is; what the frontend wrote is recorded.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from client.aio import TaskSet, resolve
from client.protocol.transport import (
    Socket,
    SocketKind,
    SocketOptions,
    Transport,
    TransportError,
    UnknownPeerError,
)
from harness.capture import kinds
from harness.capture.recording import FROM_ENGINE, HANDSHAKE, TO_ENGINE, Frame
from harness.recording.init_addresses import Addresses, addresses_of, with_addresses
from harness.recording.lane import LINGER_MS, ROUTER, Lane, rank_of, received, remove_socket_file
from harness.recording.sink import Sink
from harness.recording.watching import Watch, drained

FRONTEND = "the frontend left"
ENGINES = "all engines left"
_TCP = re.compile(r"tcp://(?P<host>.+):[^:]+")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is relayed.

    Attributes:
        handshake: where the frontend answers HELLO; ``None``: engines are given addresses.
        listen: where engines say HELLO to us.
        upstream: without a handshake: the frontend's and the coordinator's addresses.
        down: without a handshake: our addresses for the engines.
        ranks: of the engines; needed without a handshake.
    """

    handshake: str | None = None
    listen: str = "tcp://127.0.0.1:*"
    upstream: Addresses | None = None
    down: Addresses | None = None
    ranks: Sequence[int] = ()


class Proxy:
    """The proxy of one session.

    Args:
        transport: real sockets; not closed here.
        sink: is told of each message.
        say: shows the user a line.
    """

    def __init__(
        self, transport: Transport, plan: Plan, sink: Sink, say: Callable[[str], object]
    ) -> None:
        self._transport = transport
        self._plan = plan
        self._sink = sink
        self._say = say
        self._tasks = TaskSet(lambda _name, error: self._failed(error))
        self._lanes: dict[int, Lane] = {}
        self._shaking: dict[bytes, tuple[Socket, Watch]] = {}
        self._ready: dict[bytes, None] = {}
        self._listener: Socket | None = None
        self._changed = asyncio.Event()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reason = ""
        self.failure: BaseException | None = None
        self.notes: dict[str, None] = {}

    # --- start ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bind what the engines connect to.

        Raises:
            TransportError: an address is in use, or cannot be bound.
        """
        plan = self._plan
        if plan.handshake is not None:
            self._listener = await self._transport.bind(SocketKind.ROUTER, plan.listen, ROUTER)
            self._tasks.spawn(self._hellos(self._listener), name="handshake")
            self._say(f"engines: say HELLO at {self._listener.endpoint}")
        else:
            assert plan.upstream is not None
            assert plan.down is not None
            down = await self._lane(0, plan.upstream, plan.ranks).open(plan.down)
            told = [f"--input {down.inputs[0]}", f"--output {down.outputs[0]}"]
            if down.coordinator_input is not None:
                told += [
                    f"--coordinator-input {down.coordinator_input}",
                    f"--coordinator-output {down.coordinator_output}",
                ]
            self._say(f"engines: {' '.join(told)}")
        self._tasks.spawn(self._look(), name="look")

    def _lane(self, key: int, upstream: Addresses, ranks: Sequence[int]) -> Lane:
        lane = Lane(self._transport, self._sink, upstream, ranks, self._changed.set, self._failed)
        self._lanes[key] = lane
        return lane

    # --- handshake --------------------------------------------------------------------------

    async def _hellos(self, listener: Socket) -> None:
        handshake = self._plan.handshake
        assert handshake is not None
        while (frames := await received(listener)) is not None:
            identity, *parts = frames
            if identity not in self._shaking:
                options = SocketOptions(identity=identity, linger_ms=LINGER_MS)
                dealer = await self._transport.connect(SocketKind.DEALER, handshake, options)
                self._shaking[identity] = (dealer, Watch(dealer, self._changed.set))
                name = f"handshake of {identity.hex()}"
                self._tasks.spawn(self._answers(dealer, listener, identity), name=name)
            rank = rank_of(identity)
            self._sink.take(rank, HANDSHAKE, FROM_ENGINE, parts)
            seen = Frame(0, 0, rank, HANDSHAKE, FROM_ENGINE, tuple(parts))
            if kinds.kind_of_frame(seen).name == "ready":
                self._ready[identity] = None
            await self._shaking[identity][0].send(parts)

    async def _answers(self, dealer: Socket, listener: Socket, identity: bytes) -> None:
        while (frames := await received(dealer)) is not None:
            rank = rank_of(identity)
            self._sink.take(rank, HANDSHAKE, TO_ENGINE, frames)
            try:
                await listener.send([identity, *await self._told(rank, frames)])
            except UnknownPeerError:
                self._note(f"engine {rank} left before it got what the frontend answered")

    async def _told(self, rank: int, frames: list[bytes]) -> list[bytes]:
        """What an engine is told in place of ``frames``: an INIT has our addresses."""
        upstream = addresses_of(frames[0]) if len(frames) == 1 else None
        if upstream is None:
            self._note(f"what the frontend answered to HELLO of engine {rank} is no INIT")
            return frames
        if (old := self._lanes.pop(rank, None)) is not None:
            await old.close()
        down = await self._lane(rank, upstream, [rank]).open(self._ours(rank, upstream))
        return [with_addresses(frames[0], down)]

    def _ours(self, rank: int, upstream: Addresses) -> Addresses:
        """Addresses to bind, of the kind that the frontend has."""

        def ours(name: str, there: str) -> str:
            listens = _TCP.fullmatch(self._plan.listen)
            if there.startswith("tcp://"):
                return f"tcp://{listens['host'] if listens else '127.0.0.1'}:*"
            return self._transport.endpoint(f"{name}-{rank}")

        inputs = tuple(ours("input", there) for there in upstream.inputs)
        outputs = tuple(ours("output", there) for there in upstream.outputs)
        if upstream.coordinator_input is None or upstream.coordinator_output is None:
            return Addresses(inputs, outputs)
        return Addresses(
            inputs,
            outputs,
            ours("waves", upstream.coordinator_input),
            ours("notices", upstream.coordinator_output),
        )

    # --- the end ----------------------------------------------------------------------------

    async def _look(self) -> None:
        """Close the lanes of engines that have gone; end when a side has."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            lanes = list(self._lanes.values())
            for lane in lanes:
                if lane.engines_gone and not lane.closed:
                    await lane.drain()
                    await lane.close()
                    who = ", ".join(map(str, lane.registered))
                    self._note(f"engine {who} left, which the scenario does not say")
            if self._frontend_gone(lanes):
                await self._drain()
                self._end(FRONTEND)
                return
            if lanes and all(lane.closed for lane in lanes) and not self._joining:
                self._end(ENGINES)
                return

    @property
    def _joining(self) -> bool:
        """Whether an engine has said HELLO and no more."""
        return any(rank_of(identity) not in self._lanes for identity in self._shaking)

    def _frontend_gone(self, lanes: Sequence[Lane]) -> bool:
        live = [lane for lane in lanes if lane.registered and not lane.closed]
        if live:
            return all(lane.frontends_gone for lane in live)
        # A frontend gives its handshake socket up once all are ready, so it counts until then.
        waiting = [watch for identity, (_, watch) in self._shaking.items()
                   if identity not in self._ready]  # fmt: skip
        return bool(waiting) and not lanes and all(watch.gone for watch in waiting)

    async def _drain(self) -> None:
        shaking = [socket for socket, _ in self._shaking.values()]
        await drained(lambda: shaking)
        for lane in self._lanes.values():
            await lane.drain()

    def _end(self, reason: str) -> None:
        self.reason = self.reason or reason
        resolve(self._ended)

    def _failed(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self._end("a socket failed")

    async def ended(self) -> None:
        """Return when a side has left, or a socket failed (``failure``)."""
        await asyncio.shield(self._ended)

    @property
    def joined(self) -> tuple[int, ...]:
        """Ranks that have registered, in order."""
        found = [rank for lane in self._lanes.values() for rank in lane.registered]
        return tuple(sorted(dict.fromkeys(found)))

    def _note(self, note: str) -> None:
        self.notes.setdefault(note)

    async def stop(self) -> None:
        """Release everything; what was taken from one side still reaches the other."""
        await self._tasks.close()
        for lane in self._lanes.values():
            await lane.close()
            if lane.undelivered:
                self._note(f"{lane.undelivered} messages came for engines that had left")
        for socket, watch in self._shaking.values():
            watch.stop()
            socket.close()
        if self._listener is not None:
            self._listener.close()
            remove_socket_file(self._listener.endpoint)


__all__ = ["ENGINES", "FRONTEND", "Plan", "Proxy", "TransportError"]
