"""The external coordinator process, on any transport: sockets, tasks, publish timer.

Engines connect to the back sockets, frontends to the front socket. ``publish`` and
``publish_raw`` are for scenarios: they send what a script says and change no state.

Source: Python ``v1/engine/coordinator.py``; protocol page, section 12.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from client.aio import DeadlineExceeded, Mailbox, TaskSet, resolve
from client.components import Components
from client.coordinator import FirstRequest, WaveState
from client.events import (
    CoordinatorPublished,
    FirstRequestHandled,
    Observer,
    ScaleNoticeHandled,
    WaveNoticeHandled,
    ignore,
)
from client.external_coordinator import (
    AnswerReady,
    Broadcast,
    CoordinatorDied,
    Effect,
    ExternalCoordinatorState,
    Note,
    Publish,
)
from client.protocol.codec_errors import DecodeError
from client.protocol.codec_msgpack import unpack
from client.protocol.ids import Wave
from client.protocol.messages import (
    READY_GATE,
    SCALE_MESSAGE,
    SUBSCRIBE_ALL,
    UNSUBSCRIBE_ALL,
    CoordinatorPublish,
    EngineCoreOutputs,
    StartDpWave,
)
from client.protocol.profiles import Profile
from client.protocol.transport import (
    Socket,
    SocketKind,
    SocketOptions,
    Transport,
    TransportError,
)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message and the way it came: ``front``, ``back`` (outputs) or ``subscription``."""

    way: str
    frames: list[bytes]


@dataclass(frozen=True, slots=True)
class _Sockets:
    front: Socket
    back_input: Socket
    back_output: Socket

    def close(self) -> None:
        for socket in (self.front, self.back_input, self.back_output):
            socket.close()


class ExternalCoordinator:
    """One coordinator process. ``start`` and ``stop`` may alternate; each start begins anew.

    Attributes:
        died: why it ended by itself (an engine broke the rules), else ``None``.
        notes: odd messages, as the process would log them.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        profile: Profile,
        engine_count: int,
        front_address: str,
        back_input_address: str,
        back_output_address: str,
        observer: Observer = ignore,
        wave_coordination: bool = True,
        subscribers: int | None = None,
        components: Components = Components(),  # noqa: B008  (frozen)
    ) -> None:
        """Make a coordinator that is not started; ``subscribers``: engines that exist, if fewer."""
        self._transport = transport
        self._profile = profile
        self._codec = components.codec(profile)
        self._state_type = components.external_coordinator
        self._engine_count = engine_count
        self._subscribers = subscribers
        self._emit = observer
        self._wave_coordination = wave_coordination
        self.front_address = front_address
        self.back_input_address = back_input_address
        self.back_output_address = back_output_address
        self.died: str | None = None
        self.notes: list[str] = []
        self._sockets: _Sockets | None = None
        self._state: ExternalCoordinatorState | None = None
        self._tasks: TaskSet | None = None
        self._front_subscriptions = 0
        self._watchers: list[asyncio.Future[None]] = []

    @property
    def running(self) -> bool:
        """Whether it is started and has not died."""
        return self._sockets is not None

    def snapshot(self) -> WaveState | None:
        """Its wave state; ``None`` while stopped."""
        return None if self._state is None else self._state.snapshot()

    async def start(self) -> None:
        """Bind the sockets and serve. Engines get ``READY`` once all have subscribed.

        Raises:
            TransportError: an address cannot be bound.
            RuntimeError: it is started already.
        """
        if self._sockets is not None:
            msg = "the coordinator is started already"
            raise RuntimeError(msg)
        opened: list[Socket] = []
        options = SocketOptions(xpub_verbose=True)
        try:
            for kind, address in (
                (SocketKind.XPUB, self.front_address),
                (SocketKind.XPUB, self.back_input_address),
                (SocketKind.PULL, self.back_output_address),
            ):
                opened.append(await self._transport.bind(kind, address, options))
        except BaseException:
            for socket in opened:
                socket.close()
            raise
        self._sockets = sockets = _Sockets(*opened)
        self.died = None
        self._front_subscriptions = 0
        self._state = self._state_type(
            self._profile,
            self._engine_count,
            wave_coordination=self._wave_coordination,
            now=asyncio.get_running_loop().time(),
            subscribers=self._subscribers,
        )
        self._tasks = TaskSet(self._on_fault)
        inbox: Mailbox[Arrived] = Mailbox()
        self._tasks.spawn(self._serve(inbox, sockets, self._state), name="coordinator")
        for way, socket in (
            ("subscription", sockets.back_input),
            ("back", sockets.back_output),
            ("front", sockets.front),
        ):
            name = f"coordinator-{way}"
            self._tasks.spawn(_receive(socket, way, inbox), name=name)

    async def stop(self) -> None:
        """End as a process would: no good-bye. Idempotent."""
        tasks, sockets = self._tasks, self._sockets
        self._tasks = self._sockets = self._state = None
        if tasks is not None:
            await tasks.close()
        if sockets is not None:
            sockets.close()

    async def front_subscribed(self, count: int = 1) -> None:
        """Wait until ``count`` frontends have subscribed since the start.

        What is published before a subscription has arrived is lost, as with any PUB socket.
        """
        while self._front_subscriptions < count:
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(changed)
            await changed

    async def publish(
        self, counts: Sequence[Sequence[float]] | None, wave: int, running: bool
    ) -> None:
        """Send a scripted publish to all frontends. Its own state stays as it is."""
        await self._publish(CoordinatorPublish(counts, Wave(wave), running), self._front())

    async def publish_raw(self, frames: Sequence[bytes]) -> None:
        """Send scripted frames to all frontends."""
        await self._front().send(list(frames))

    def _front(self) -> Socket:
        if self._sockets is None:
            msg = "the coordinator is stopped"
            raise RuntimeError(msg)
        return self._sockets.front

    def _on_fault(self, name: str, error: BaseException) -> None:
        """The process ends when one of its loops does."""
        self.died = f"{name}: {error}"
        if self._tasks is not None:
            self._tasks.cancel()
        if self._sockets is not None:
            self._sockets.close()
        self._tasks = self._sockets = self._state = None
        if not isinstance(error, CoordinatorDied | DecodeError | TransportError):
            raise error

    # --- the loop ---

    async def _serve(
        self, inbox: Mailbox[Arrived], sockets: _Sockets, state: ExternalCoordinatorState
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            deadline = state.next_publish(loop.time()) if state.started else None
            try:
                item = await inbox.get(deadline)
            except DeadlineExceeded:
                effects = state.on_timeout(loop.time())
            else:
                effects = self._handle(item, state)
            for effect in effects:
                await self._carry_out(effect, sockets)

    def _handle(self, item: Arrived, state: ExternalCoordinatorState) -> list[Effect]:
        match item.way:
            case "subscription":
                return state.on_back_subscription(item.frames)
            case "back":
                return self._on_back(self._codec.decode_outputs(item.frames), state)
            case _:
                return self._on_front(item.frames, state)

    def _on_back(self, outputs: EngineCoreOutputs, state: ExternalCoordinatorState) -> list[Effect]:
        before = state.snapshot()
        effects = state.on_outputs(outputs)
        after = state.snapshot()
        complete = outputs.wave_complete is not None
        wave = outputs.wave_complete if complete else outputs.start_wave
        if wave is not None:
            self._emit(
                WaveNoticeHandled(
                    notice="complete" if complete else "start",
                    engine=outputs.engine_index,
                    wave=wave,
                    wave_before=before.current_wave,
                    running_before=before.engines_running,
                    wave_after=after.current_wave,
                    running_after=after.engines_running,
                    broadcast=_broadcast_of(effects) is not None,
                )
            )
        return effects

    def _on_front(self, frames: list[bytes], state: ExternalCoordinatorState) -> list[Effect]:
        if frames == [SUBSCRIBE_ALL]:
            self._front_subscriptions += 1
            for watcher in self._watchers:
                resolve(watcher)
            self._watchers.clear()
            return []
        if frames == [UNSUBSCRIBE_ALL]:
            return []
        if len(frames) != 1:
            return [Note(f"front message of {len(frames)} frames")]
        match unpack(frames[0], "front message"):
            case [str(name), int(count)] if name == SCALE_MESSAGE:
                engines_before = len(state.counts())
                effects = state.on_scale(count)
                self._emit(ScaleNoticeHandled(engines_before, len(state.counts())))
                return effects
            case _:
                notice = self._codec.decode_first_request(frames[0])
        request = FirstRequest(notice.exclude_engine_index, notice.wave)
        before = state.snapshot()
        effects = state.on_first_request(request)
        after = state.snapshot()
        broadcast = _broadcast_of(effects)
        self._emit(
            FirstRequestHandled(
                engine=request.target,
                request_wave=request.wave,
                wave_before=before.current_wave,
                running_before=before.engines_running,
                wave_after=after.current_wave,
                running_after=after.engines_running,
                broadcast_wave=None if broadcast is None else broadcast.wave,
                exclude=None if broadcast is None else broadcast.exclude_engine_index,
            )
        )
        return effects

    async def _carry_out(self, effect: Effect, sockets: _Sockets) -> None:
        match effect:
            case Publish(message):
                await self._publish(message, sockets.front)
            case Broadcast(message):
                await sockets.back_input.send(self._codec.encode_start_wave(message))
            case AnswerReady():
                await sockets.back_input.send([READY_GATE])
            case Note(text):
                self.notes.append(text)
            case _:
                assert_never(effect)

    async def _publish(self, message: CoordinatorPublish, front: Socket) -> None:
        counts = message.counts
        self._emit(
            CoordinatorPublished(
                None if counts is None else tuple(tuple(each) for each in counts),
                message.current_wave,
                message.engines_running,
            )
        )
        await front.send([self._codec.encode_publish(message)])


def _broadcast_of(effects: Sequence[Effect]) -> StartDpWave | None:
    for effect in effects:
        if isinstance(effect, Broadcast):
            return effect.message
    return None


async def _receive(socket: Socket, way: str, inbox: Mailbox[Arrived]) -> None:
    while True:
        inbox.put(Arrived(way, await socket.recv()))
