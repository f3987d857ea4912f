"""Coordinators as the client runs them: in-process, or a view of an external one.

The in-process runner has two sources, the queue of first requests and the notices of engines,
and nothing orders one against the other (Rust selects between them at random). So each has a
task of its own; both feed one state. Broadcasts leave in the order in which the state decided
them: a ``Turnstile`` keeps that order even when a send has to wait.

Sources: Rust ``engine-core-client/src/coordinator/{inproc,external}.rs``; PR #46833; protocol page,
sections 5.2, 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from client.aio import Mailbox, TaskSet, Turnstile
from client.coordinator import CoordinatorState, ExternalView, FirstRequest, WaveState
from client.errors import (
    ClientError,
    ControlClosed,
    EngineCoreDead,
    Transport,
    UnexpectedCoordinatorOutput,
    UnsupportedCoordinatorEngineId,
    from_codec,
)
from client.events import (
    CoordinatorStateApplied,
    FirstRequestHandled,
    FirstRequestQueued,
    ScaleNoticeQueued,
    WaveNoticeHandled,
)
from client.inner import ClientInner
from client.protocol.codec_errors import DecodeError
from client.protocol.ids import Identity, rank_from_identity
from client.protocol.messages import (
    READY_GATE,
    SUBSCRIBE_ALL,
    EngineDead,
    FirstRequestNotice,
    OutputKind,
    RequestBatch,
    StartDpWave,
    StartWave,
    Unclassified,
    UtilityReply,
    WaveComplete,
)
from client.protocol.shown import quoted
from client.protocol.transport import Socket, TransportError


class Coordinator(Protocol):
    """What ``call`` needs of a coordinator."""

    def snapshot(self) -> WaveState:
        """Wave and running flag, as known now."""

    def first_request(self, engine: Identity) -> None:
        """A request is about to go to ``engine``; wakes the others if they are paused."""

    def start(self, tasks: TaskSet) -> None:
        """Start the tasks."""

    async def admit(self) -> None:
        """Open the gate for engines that come later, until cancelled."""

    def announce(self, engines: int) -> None:
        """There are so many engines from now on."""


class InProcessRunner:
    """Runs the coordinator inside the client."""

    def __init__(
        self, inner: ClientInner, state: CoordinatorState, *, publisher: Socket, notices: Socket
    ) -> None:
        self._inner = inner
        self._state = state
        self._publisher = publisher
        self._notices = notices
        self._commands: Mailbox[tuple[FirstRequest, Identity]] = Mailbox()
        self._order = Turnstile()

    def snapshot(self) -> WaveState:
        """See ``Coordinator``."""
        return self._state.snapshot()

    def first_request(self, engine: Identity) -> None:
        """See ``Coordinator``. Raises ``ControlClosed`` when the runner is gone."""
        if self._commands.closed:
            raise ControlClosed
        request = self._state.notify_first_request(self._inner.ranks[engine])
        if request is None:
            return
        self._commands.put((request, engine))
        self._inner.emit(FirstRequestQueued(request.target, request.wave))

    def start(self, tasks: TaskSet) -> None:
        """See ``Coordinator``. Since 0.33 there is no command queue."""
        if self._state.starts_waves:
            tasks.spawn(self._serve_commands(), name="coordinator-commands")
        tasks.spawn(self._serve_notices(), name="coordinator-notices")

    async def admit(self) -> None:
        """See ``Coordinator``: each that subscribes gets READY, as from an external one."""
        while True:
            frames = await self._publisher.recv()
            if frames == [SUBSCRIBE_ALL]:
                async with self._order:
                    await _send_or_fail(self._inner, self._publisher, [READY_GATE])

    def announce(self, engines: int) -> None:
        """See ``Coordinator``. It keeps nothing of each engine."""

    async def _serve_commands(self) -> None:
        try:
            while True:
                request, engine = await self._commands.get()
                if self._inner.health_error is not None:
                    continue
                if rank_from_identity(engine) is None:
                    self._inner.fail(UnsupportedCoordinatorEngineId(engine))
                    continue
                await self._handle_first_request(request)
        finally:
            self._commands.close()

    async def _handle_first_request(self, request: FirstRequest) -> None:
        before = self._state.snapshot()
        broadcast = self._state.on_first_request(request)
        after = self._state.snapshot()
        self._inner.emit(
            FirstRequestHandled(
                engine=request.target,
                request_wave=request.wave,
                wave_before=before.current_wave,
                running_before=before.engines_running,
                wave_after=after.current_wave,
                running_after=after.engines_running,
                broadcast_wave=broadcast.wave,
                exclude=broadcast.exclude_engine_index,
            )
        )
        await self._broadcast(broadcast)

    async def _serve_notices(self) -> None:
        while True:
            try:
                frames = await self._notices.recv()
            except TransportError as error:
                self._inner.fail(Transport(str(error)))
                return
            try:
                kind = self._inner.codec.classify(frames)
            except DecodeError as error:
                self._inner.fail(from_codec(error))
            else:
                await self._handle_output(kind)

    async def _handle_output(self, kind: OutputKind) -> None:
        match kind:
            case WaveComplete() | StartWave():
                if self._inner.health_error is None:
                    await self._handle_notice(kind)
            case RequestBatch() if not kind.outputs and kind.finished_requests is None:
                pass  # load stats are for the external coordinator
            case EngineDead():
                self._inner.fail(EngineCoreDead())
            case RequestBatch() | UtilityReply() | Unclassified():
                self._inner.fail(UnexpectedCoordinatorOutput(quoted(kind)))
            case _:
                assert_never(kind)

    async def _handle_notice(self, kind: WaveComplete | StartWave) -> None:
        before = self._state.snapshot()
        broadcast: StartDpWave | None = None
        if isinstance(kind, WaveComplete):
            self._state.on_wave_complete(kind.wave)
        else:
            broadcast = self._state.on_start_wave(kind.wave, kind.engine_index)
        after = self._state.snapshot()
        self._inner.emit(
            WaveNoticeHandled(
                notice="complete" if isinstance(kind, WaveComplete) else "start",
                engine=kind.engine_index,
                wave=kind.wave,
                wave_before=before.current_wave,
                running_before=before.engines_running,
                wave_after=after.current_wave,
                running_after=after.engines_running,
                broadcast=broadcast is not None,
            )
        )
        if broadcast is not None:
            await self._broadcast(broadcast)

    async def _broadcast(self, message: StartDpWave) -> None:
        async with self._order:
            if self._inner.health_error is not None:
                return
            frames = self._inner.codec.encode_start_wave(message)
            await _send_or_fail(self._inner, self._publisher, frames)


class ExternalRunner:
    """Follows an external coordinator, and tells it of first requests (≤ 0.32)."""

    def __init__(self, inner: ClientInner, view: ExternalView, *, socket: Socket) -> None:
        self._inner = inner
        self._view = view
        self._socket = socket
        self._commands: Mailbox[FirstRequestNotice | int] = Mailbox()
        self._announcer: TaskSet | None = None

    def snapshot(self) -> WaveState:
        """See ``Coordinator``."""
        return self._view.snapshot()

    def first_request(self, engine: Identity) -> None:
        """See ``Coordinator``. Raises ``ControlClosed`` when the runner is gone."""
        if self._commands.closed:
            raise ControlClosed
        notice = self._view.notify_first_request(self._inner.ranks[engine])
        if notice is None:
            return
        self._commands.put(notice)
        self._inner.emit(FirstRequestQueued(notice.exclude_engine_index, notice.wave))

    def start(self, tasks: TaskSet) -> None:
        """See ``Coordinator``."""
        self._announcer = tasks
        if self._inner.profile.frontend_starts_waves:
            tasks.spawn(self._serve_commands(), name="coordinator-commands")
        tasks.spawn(self._serve_publishes(), name="coordinator-publishes")

    async def admit(self) -> None:
        """See ``Coordinator``. The external one opens its gate itself."""

    def announce(self, engines: int) -> None:
        """See ``Coordinator``. Behind first requests, as they leave by one socket."""
        self._commands.put(engines)
        self._inner.emit(ScaleNoticeQueued(engines))
        if not self._inner.profile.frontend_starts_waves and self._announcer is not None:
            self._announcer.spawn(self._announce(), name="coordinator-scale")

    async def _announce(self) -> None:
        """Send what is to be sent; since 0.33 no task waits for it all the time."""
        while len(self._commands):
            await self._tell(await self._commands.get())

    async def _serve_commands(self) -> None:
        try:
            while True:
                await self._tell(await self._commands.get())
        finally:
            self._commands.close()

    async def _tell(self, command: FirstRequestNotice | int) -> None:
        codec = self._inner.codec
        if isinstance(command, int):
            frame = codec.encode_scale(command)
        else:
            frame = codec.encode_first_request(command)
        await _send_or_fail(self._inner, self._socket, [frame])

    async def _serve_publishes(self) -> None:
        while True:
            try:
                frames = await self._socket.recv()
            except TransportError as error:
                self._inner.fail(Transport(str(error)))
                return
            self._handle_publish(frames)

    def _handle_publish(self, frames: list[bytes]) -> None:
        if len(frames) != 1:
            shown = f"publish of {len(frames)} frames, expected 1"
            self._inner.fail(UnexpectedCoordinatorOutput(shown))
            return
        try:
            publish = self._inner.codec.decode_publish(frames[0])
        except DecodeError as error:
            self._inner.fail(from_codec(error))
            return
        if self._inner.health_error is None:
            self._view.apply(publish)
            self._inner.emit(CoordinatorStateApplied(publish.current_wave, publish.engines_running))


async def _send_or_fail(inner: ClientInner, socket: Socket, frames: Sequence[bytes]) -> None:
    """Without its coordinator a client cannot go on; one that has failed says nothing more."""
    try:
        await inner.send(socket, frames)
    except ClientError as error:
        if inner.health_error is None:
            inner.fail(error)
