"""What arrives at one engine: bytes in, events and plans out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from client.protocol.codec import Codec
from client.protocol.codec_errors import DecodeError
from client.protocol.messages import (
    READY_GATE,
    Abort,
    Add,
    EngineCoreRequest,
    EngineInput,
    StartDpWave,
    UtilityCall,
)
from client.protocol.transport import Socket, SocketClosedError
from mock_engines import events
from mock_engines.engine import MockEngine, is_fence
from mock_engines.matching import Plan
from mock_engines.membership import WaveMembership
from mock_engines.outlets import Outlets
from mock_engines.stable import stable_repr


class Receiver(msgspec.Struct, frozen=True):
    """Reads the sockets of one life of an engine.

    Messages of a socket are handled in the order in which they arrive: the next one is taken
    only when ``begin`` has returned for the one before.

    Attributes:
        out: answers fences.
        emit: is told of every message.
        begin: carries a plan out, or gives it a task of its own.
        running: returns when the engine is not stalled.
        alive: whether it still handles anything.
    """

    rank: int
    codec: Codec
    engine: MockEngine
    out: Outlets
    waves: WaveMembership
    emit: events.Observer
    begin: Callable[[Plan], Awaitable[None]]
    running: Callable[[], Awaitable[None]]
    alive: Callable[[], bool]

    async def read_input(self, socket: Socket, client_index: int = 0) -> None:
        """Handle what one frontend sends, until the socket is closed or the engine dies."""

        async def handle(frames: list[bytes]) -> None:
            await self._handle_input(frames, client_index)

        await self._read(socket, handle)

    async def read_coordinator(self, socket: Socket) -> None:
        """Handle what the coordinator publishes, as long."""
        await self._read(socket, self._handle_coordinator)

    async def _read(self, socket: Socket, handle: Callable[[list[bytes]], Awaitable[None]]) -> None:
        while self.alive():
            try:
                frames = await socket.recv()
            except SocketClosedError:
                return
            await self.running()
            if self.alive():  # one that dies tells its frontend first, and reads on meanwhile
                await handle(frames)

    async def _handle_input(self, frames: list[bytes], client_index: int) -> None:
        message = self._decode(frames)
        if isinstance(message, UtilityCall) and is_fence(message):
            index = message.client_index
            await self.out.reply(
                message.call_id, message.method, value=True, client_index=index, silent=True
            )
        elif isinstance(message, StartDpWave):
            self._unknown("START_DP_WAVE on the input socket")
        elif message is not None:
            await self.begin(self._accept(message, client_index))

    async def _handle_coordinator(self, frames: list[bytes]) -> None:
        if frames == [READY_GATE]:
            # After startup it changes nothing, but shows that a late subscription was heard.
            self.emit(events.GateOpened(self.rank))
            return
        message = self._decode(frames)
        if isinstance(message, StartDpWave):
            seen = events.StartWaveSeen(self.rank, message.wave, message.exclude_engine_index)
            self.emit(seen)
            await self.begin(self.engine.start_wave(message, seen))
        elif message is not None:
            self._unknown(f"{type(message).__name__} on the coordinator socket")

    def _decode(self, frames: list[bytes]) -> EngineInput | None:
        try:
            return self.codec.decode_engine_input(frames)
        except DecodeError as error:
            self._unknown(str(error))
            return None

    def _unknown(self, detail: str) -> None:
        self.emit(events.UnknownSeen(self.rank, detail))

    def _accept(self, message: Add | Abort | UtilityCall, client_index: int) -> Plan:
        """Report what arrived, and let the engine choose its plan."""
        if isinstance(message, Add):
            added = _add_seen(self.rank, message)
            self.emit(added)
            return self._add(message.request, added)
        if isinstance(message, Abort):
            aborted = events.AbortSeen(self.rank, tuple(message.request_ids), client_index)
            self.emit(aborted)
            return self.engine.abort(message.request_ids, aborted)
        called = events.UtilitySeen(
            self.rank,
            message.call_id,
            message.method,
            stable_repr(message.args),
            message.client_index,
        )
        self.emit(called)
        return self.engine.utility_call(message, called)

    def _add(self, request: EngineCoreRequest, seen: events.AddSeen) -> Plan:
        plan = self.engine.match(request, seen)
        if plan.ignores:
            return plan
        paused = self.engine.utility.paused is not None
        self.waves.added(wave=request.current_wave, paused=paused)
        return self.engine.accept(request, plan)


def _add_seen(rank: int, message: Add) -> events.AddSeen:
    request = message.request
    params = request.sampling_params
    extra = params.get("extra_args") if params is not None else None
    return events.AddSeen(
        engine=rank,
        request_id=request.request_id,
        external_id=request.external_req_id,
        wave=request.current_wave,
        data_parallel_rank=request.data_parallel_rank,
        client_index=request.client_index,
        prompt=tuple(request.prompt_token_ids or ()),
        extra_args="" if extra is None else stable_repr(extra),
        aux_bytes=tuple(len(frame) for frame in message.aux),
    )
