"""The open sockets of one engine, and what it can send on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from client.protocol.codec import Codec
from client.protocol.ids import ELASTIC_NOTICE_ID, CallId, RequestId, Wave
from client.protocol.messages import (
    ENGINE_CORE_DEAD,
    EngineCoreOutput,
    EngineCoreOutputs,
    UtilityOutput,
)
from client.protocol.transport import Socket
from mock_engines import aio, events
from mock_engines.stable import stable_repr

RAW_SHOWN_BYTES = 64
"""How much of each scripted frame an event shows."""


class ScriptError(Exception):
    """An action asks for what this engine, or this kind of message, cannot do."""


class Sockets(msgspec.Struct):
    """Open sockets. A multi-frontend deployment has one input and one output for each."""

    handshake: Socket | None = None
    inputs: list[Socket] = msgspec.field(default_factory=list)
    outputs: list[Socket] = msgspec.field(default_factory=list)
    coordinator_input: Socket | None = None
    coordinator_output: Socket | None = None

    def close(self) -> None:
        """Close all. Idempotent."""
        single = (self.handshake, self.coordinator_input, self.coordinator_output)
        for socket in (*single, *self.inputs, *self.outputs):
            if socket is not None:
                socket.close()


class Outlets:
    """Sends for one engine; each method emits its event in the moment in which it sends.

    ``running``: returns when the engine may send; a stalled one may not.
    """

    def __init__(
        self,
        rank: int,
        codec: Codec,
        observer: events.Observer,
        running: Callable[[], Awaitable[None]] = aio.at_once,
    ) -> None:
        self.sockets = Sockets()
        self._running = running
        self._rank = rank
        self._codec = codec
        self._emit = observer

    def _envelope(self, engine_index: int | None, **parts: Any) -> list[bytes]:
        now = asyncio.get_running_loop().time()
        index = self._rank if engine_index is None else engine_index
        outputs = EngineCoreOutputs(engine_index=index, timestamp=now, **parts)
        return self._codec.encode_outputs(outputs)

    def _main(self, client_index: int) -> Socket:
        outputs = self.sockets.outputs
        if not outputs:
            msg = f"engine {self._rank} has no output socket"
            raise ScriptError(msg)
        # A client index beyond the addresses that INIT gave cannot be told apart: the first.
        return outputs[client_index] if 0 <= client_index < len(outputs) else outputs[0]

    def _coordinator(self) -> Socket:
        socket = self.sockets.coordinator_output
        if socket is None:
            msg = f"engine {self._rank} has no coordinator: this needs a topology with one"
            raise ScriptError(msg)
        return socket

    async def rows(
        self,
        rows: Sequence[EngineCoreOutput],
        *,
        client_index: int = 0,
        engine_index: int | None = None,
        finished: Sequence[str] = (),
    ) -> None:
        """Send output rows in one message, with ``finished_requests`` if there are any."""
        await self._running()
        parts: dict[str, Any] = {"outputs": tuple(rows)}
        if finished:
            parts["finished_requests"] = tuple(RequestId(name) for name in finished)
        frames = self._envelope(engine_index, **parts)
        socket = self._main(client_index)
        for row in rows:
            finish = None if row.finish_reason is None else row.finish_reason.name.lower()
            tokens = tuple(row.new_token_ids)
            self._emit(events.OutputSent(self._rank, row.request_id, tokens, finish))
        if finished:
            self._emit(events.FinishedOnlySent(self._rank, tuple(finished)))
        await socket.send(frames)

    async def finished_only(self, request_ids: Sequence[str], *, client_index: int = 0) -> None:
        """Send ``finished_requests`` without a final output."""
        await self._running()
        ids = tuple(RequestId(request_id) for request_id in request_ids)
        frames = self._envelope(None, finished_requests=ids)
        socket = self._main(client_index)
        self._emit(events.FinishedOnlySent(self._rank, ids))
        await socket.send(frames)

    async def reply(
        self,
        call_id: int,
        method: str,
        *,
        value: Any = None,
        failure: str | None = None,
        client_index: int = 0,
        engine_index: int | None = None,
        silent: bool = False,
    ) -> None:
        """Send a utility reply. ``silent``: without an event (the fence)."""
        await self._running()
        output = UtilityOutput(CallId(call_id), failure, None if failure is not None else value)
        frames = self._envelope(engine_index, utility_output=output)
        socket = self._main(client_index)
        if not silent:
            text = stable_repr(value)
            self._emit(events.UtilityReplySent(self._rank, call_id, method, failure, text))
        await socket.send(frames)

    async def stats(
        self, stats: Mapping[str, Any], *, engine_index: int | None, coordinator: bool
    ) -> None:
        """Send scheduler stats, and nothing else, on the main or the coordinator path."""
        await self._running()
        frames = self._envelope(engine_index, scheduler_stats=stats)
        socket = self._coordinator() if coordinator else self._main(0)
        index = self._rank if engine_index is None else engine_index
        running, waiting = stats["num_running_reqs"], stats["num_waiting_reqs"]
        path = "coordinator" if coordinator else "main"
        self._emit(events.StatsSent(self._rank, index, running, waiting, path))
        await socket.send(frames)

    async def notice(
        self, notice: str, wave: int, *, engine_index: int | None = None, silent: bool = False
    ) -> None:
        """Send a wave notice, ``complete`` or ``start``. ``silent``: without an event."""
        await self._running()
        field_name = "wave_complete" if notice == "complete" else "start_wave"
        frames = self._envelope(engine_index, **{field_name: Wave(wave)})
        socket = self._coordinator()
        if not silent:
            self._emit(events.WaveNoticeSent(self._rank, notice, wave))
        await socket.send(frames)

    async def elastic_notice(self, notice: str) -> None:
        """Tell the first frontend how far a change of the number of engines is."""
        await self._running()
        output = UtilityOutput(ELASTIC_NOTICE_ID, None, [notice, self._rank])
        frames = self._envelope(None, utility_output=output)
        socket = self._main(0)
        self._emit(events.ElasticNoticeSent(self._rank, notice))
        await socket.send(frames)

    async def raw(self, frames: Sequence[bytes], path: str) -> None:
        """Send scripted frames on ``main``, ``coordinator``, ``input`` or ``handshake``."""
        await self._running()
        socket = self._raw_socket(path)
        shown = tuple(frame[:RAW_SHOWN_BYTES].hex() for frame in frames)
        self._emit(events.RawSent(self._rank, path, shown))
        await socket.send(frames)

    def _raw_socket(self, path: str) -> Socket:
        if path == "main":
            return self._main(0)
        if path == "coordinator":
            return self._coordinator()
        if path == "input" and self.sockets.inputs:
            return self.sockets.inputs[0]
        if path == "handshake" and self.sockets.handshake is not None:
            return self.sockets.handshake
        msg = f"engine {self._rank} has no {path} socket"
        raise ScriptError(msg)

    async def sentinel(self) -> None:
        """Tell every frontend that this engine is dead."""
        await self._running()
        for socket in self.sockets.outputs:
            await socket.send([ENGINE_CORE_DEAD])
