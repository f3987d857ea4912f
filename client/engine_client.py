"""The client: what callers use. Decisions are in the pure objects, work in the tasks behind."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from client.abort_worker import AbortWorker
from client.admin import AdminMethods
from client.aio import TaskSet, resolve
from client.components import Components
from client.config import ClientConfig, validate
from client.coordinator import WaveState
from client.coordinator_shell import Coordinator, ExternalRunner, InProcessRunner
from client.deployment import Deployment
from client.errors import ClientClosed as ClientClosedError
from client.errors import DispatcherClosed, UnsupportedField, from_codec
from client.events import ClientClosed, EngineConnected, Observer, ignore
from client.inner import ClientInner, Request
from client.output_loop import run_output_loop
from client.output_stream import OutputStream
from client.protocol.codec_errors import EncodeError
from client.protocol.ids import CallId, Identity, RequestId, Wave
from client.protocol.messages import (
    EngineCoreOutput,
    EngineCoreRequest,
    FinishReason,
)
from client.protocol.transport import Transport
from client.scaling import Launcher
from client.startup import Connected, Startup
from client.utility import CONFIGURED, Timeout, check_result_type

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClientSnapshot:
    """The registries at one moment.

    Attributes:
        in_flight: request ids, by engine order, then by id.
        departing: ids of requests that are over, but whose ABORT was not handed over yet, so
            that they are still refused as duplicates.
        pending_utility_calls: call ids that wait.
        loads: ``(rank, requests in flight)`` of each engine, in engine order.
        current_wave: of the coordinator; ``None`` without one, as is ``engines_running``.
    """

    in_flight: tuple[RequestId, ...]
    departing: tuple[RequestId, ...]
    pending_utility_calls: tuple[CallId, ...]
    loads: tuple[tuple[int, int], ...]
    current_wave: int | None
    engines_running: bool | None
    healthy: bool


class EngineClient(AdminMethods, Deployment):
    """A connected engine-core client. Get one from ``connect``; end it with ``shutdown``.

    Tasks of a client never refer to it: dropping the last reference ends them too.
    """

    def __init__(self, config: ClientConfig, connected: Connected, inner: ClientInner) -> None:
        self._config = config
        self._profile = config.profile
        self._inner = inner
        self._aggregation = inner.aggregation
        self._loop = asyncio.get_running_loop()
        self._coordinator = _make_coordinator(config, connected, inner)
        tasks = inner.components.tasks
        self._worker_tasks = tasks(_fault_handler(inner))
        self._abort_worker = inner.components.abort_worker(inner, self._worker_tasks)
        self._output_tasks = tasks(_fault_handler(inner))
        self._coordinator_tasks = tasks(_fault_handler(inner))
        self._closing: asyncio.Future[None] | None = None
        self._output_tasks.spawn(
            run_output_loop(inner, connected.output_socket), name="output-loop"
        )
        self._abort_worker.start()
        if self._coordinator is not None:
            self._coordinator.start(self._coordinator_tasks)

    @classmethod
    async def connect(
        cls,
        config: ClientConfig,
        transport: Transport,
        *,
        observer: Observer = ignore,
        components: Components = Components(),  # noqa: B008  (frozen)
    ) -> EngineClient:
        """Check the configuration, run startup, start the tasks.

        Raises:
            InvalidClientConfig: before any socket work.
            StartupError, Decode, Transport: startup failed; every socket is closed again.
        """
        validate(config)
        codec = components.codec(config.profile)
        connected = await Startup(config, transport, codec, components.handshake).run()
        try:
            inner = components.inner(
                profile=config.profile,
                codec=codec,
                engines=connected.engines,
                input_socket=connected.input_socket,
                sockets=connected.sockets,
                observer=observer,
                components=components,
            )
            for engine in connected.engines:
                observer(EngineConnected(inner.ranks[engine.identity], engine.identity))
            return cls(config, connected, inner)
        except BaseException:  # of an observer or a component: nobody else could close these
            while connected.sockets:
                connected.sockets.pop().close()
            raise

    @property
    def components(self) -> Components:
        """What it is built from."""
        return self._inner.components

    # --- requests ---

    async def call(self, request: EngineCoreRequest, aux: Sequence[bytes] = ()) -> OutputStream:
        """Submit a request; return the stream of its outputs once ADD is handed over.

        Order: validate, register, build the stream, stamp the wave and wake paused engines
        (≤ 0.32), send. A failure on the way takes the registration back; a cancellation during
        the send also aborts, behind the ADD, since nobody knows whether it left.

        Args:
            request: ``data_parallel_rank`` asks for one engine by global rank; ``client_index``
                and ``current_wave`` are stamped here.
            aux: frames behind the body.

        Raises:
            UnsupportedField, DuplicateRequestId, InvalidDataParallelRank, Encode: nothing sent.
            Transport: the engine is gone; other engines are not affected.
            ClientError: the sticky error, once the client failed or was closed, also during the
                send, which is given up then.

        Source: Rust ``client.rs``, PR #52671; protocol page, section 6.2.
        """
        if request.prompt_embeds is not None:
            raise UnsupportedField(field="prompt_embeds", message_type="EngineCoreRequest")
        inner, components = self._inner, self._inner.components
        wave = self._waves()
        stamped = 0 if wave is None else wave.current_wave
        registered = inner.register(request.request_id, request.data_parallel_rank, stamped)
        roll_back, abort = _ways_back(inner, self._abort_worker, registered)
        stream = components.stream(
            registered.request_id, inner.ranks[registered.engine], registered.sink, abort
        )
        with components.admission_guard(roll_back, abort) as guard:
            request = msgspec.structs.replace(
                request, client_index=self._config.client_index, current_wave=Wave(stamped)
            )
            if self._coordinator is not None:
                self._coordinator.first_request(registered.engine)
            try:
                frames = inner.codec.encode_add(request, aux)
            except EncodeError as error:
                raise from_codec(error) from error
            guard.sending()
            try:
                await inner.send_to_engine(registered.engine, frames)
            finally:
                inner.handed_over()  # who waits for that looks once this call has gone on
        registered.sent = True
        if registered.abort_due:
            self._abort_worker.follow_up(registered)
        stream.admit()
        return stream

    async def abort(self, request_ids: Sequence[RequestId]) -> None:
        """Abort requests: their streams end with reason ``abort`` at once, then engines are told.

        Ids that are not in flight are ignored. Each engine gets one ABORT, behind the ADD. Who
        leaves this call early does not take the ABORT back.

        Raises:
            ClientError: the sticky error; or of the first engine that could not be told.

        Source: Rust ``client.rs``; protocol page, section 8.3.
        """
        inner = self._inner
        if not request_ids:
            return
        if inner.health_error is not None:
            raise inner.health_error.again()
        due: list[Request] = []
        for request_id in dict.fromkeys(request_ids):
            request = inner.requests.get(request_id)
            if request is None:
                continue
            request.sink.push(EngineCoreOutput(request_id, (), finish_reason=FinishReason.ABORT))
            inner.release(request, "aborted", departing=True)
            if request.sent:
                due.append(request)
            else:  # its ADD is on the way: `call` sends the ABORT behind it
                request.abort_due = True
        if due:
            errors = await self._abort_worker.send(due)
            if errors:
                raise errors[0]

    async def drained(self) -> None:
        """Wait until no ABORT is queued and all have been handed to the transport."""
        await self._abort_worker.drained()

    # --- utilities ---

    async def call_utility(
        self,
        method: str,
        args: Sequence[Any],
        result_type: type[T],
        *,
        timeout_s: Timeout = CONFIGURED,
        only: Sequence[int] | None = None,
    ) -> list[T]:
        """Call a method on all engines and wait for every one of them.

        Args:
            method: its name in the engine.
            args: positional arguments; always an array on the wire.
            result_type: ``bool``, ``int``, ``float``, ``str``, ``list``, ``NoneType``, ``IdList`` or
                ``object`` (any).
            timeout_s: overall limit, ``None`` for none; default: the configuration's.
            only: ranks to call, instead of all.

        Returns:
            One value for each engine, in engine order.

        Raises:
            UtilityCallFailed, UtilityResultDecode, Transport: of the first engine, in engine
                order, that has an error, once all engines have settled.
            Encode: nothing was sent.
            UtilityCallTimeout: lists which engines had settled, and how.
            ClientError: the sticky error.
            TypeError: ``result_type`` is none of these; nothing was sent.

        Source: Rust ``client.rs``, PR #52671; protocol page, section 9.2.
        """
        check_result_type(result_type)
        call = self._inner.components.fan_out_call(
            self._inner,
            client_index=self._config.client_index,
            method=method,
            args=args,
            result_type=result_type,
            engines=self._chosen(only),
            timeout_s=self._config.utility_timeout_s if timeout_s is CONFIGURED else timeout_s,
        )
        return await call.run()

    def _chosen(self, only: Sequence[int] | None) -> list[Identity]:
        ranks = self._inner.ranks
        return [
            identity
            for identity in self._inner.connected()
            if only is None or ranks[identity] in only
        ]

    # --- another number of engines ---

    async def scale(self, size: int, launcher: Launcher) -> None:
        """Go to ``size`` engines, ranks from 0 up, while requests go on.

        Args:
            size: how many there are to be.
            launcher: starts engines, and is told of those that have ended.

        Raises:
            ScaleRefused: not possible; nothing was sent.
            ClientError: of an engine on the way, or the sticky one.

        Source: Python ``v1/engine/core_client.py``; see ``client/scaling.py``.
        """
        scaling = self._inner.components.scaling(
            self._inner,
            self._coordinator,
            launcher,
            client_index=self._config.client_index,
            ready_timeout_s=self._config.ready_timeout_s,
        )
        await scaling.run(size)
        mode = dataclasses.replace(self._config.mode, engine_count=size, data_parallel_size=size)
        self._config = dataclasses.replace(self._config, mode=mode)

    # --- white box ---

    def pending_utility_calls(self) -> tuple[CallId, ...]:
        """White box: call ids that wait for a reply."""
        return self._inner.utilities.pending()

    def in_flight(self) -> tuple[RequestId, ...]:
        """White box: request ids in flight, by engine order, then by id."""
        return self._inner.requests.in_flight()

    def loads(self) -> tuple[tuple[int, int], ...]:
        """White box: ``(rank, requests in flight)``, in engine order."""
        inner = self._inner
        return tuple((inner.ranks[each], inner.requests.count(each)) for each in inner.connected())

    def snapshot(self) -> ClientSnapshot:
        """White box: everything that can be counted, at this moment."""
        waves = self._waves()
        return ClientSnapshot(
            in_flight=self.in_flight(),
            departing=self._inner.requests.departing(),
            pending_utility_calls=self.pending_utility_calls(),
            loads=self.loads(),
            current_wave=None if waves is None else waves.current_wave,
            engines_running=None if waves is None else waves.engines_running,
            healthy=self.is_healthy,
        )

    def _waves(self) -> WaveState | None:
        return None if self._coordinator is None else self._coordinator.snapshot()

    # --- the end ---

    async def shutdown(self) -> None:
        """Close: everything open ends with ``ClientClosed``, then tasks and sockets go.

        No ABORT is sent for requests in flight, and engines are told nothing, as upstream.
        Order: sticky error, abort queue, abort worker, output loop, coordinator, utility calls,
        sockets. Who cancels it gets the cancellation once all of this is done.

        Source: protocol page, section 16.
        """
        if self._closing is not None:
            await _settled(self._closing)
            return
        self._closing = self._loop.create_future()
        inner = self._inner
        cancelled: asyncio.CancelledError | None = None
        try:
            inner.fail(ClientClosedError())
            self._abort_worker.close()
            for tasks in self._task_sets():
                try:
                    await tasks.close()
                except asyncio.CancelledError as error:
                    cancelled = error
        finally:
            for tasks in self._task_sets():
                tasks.cancel()  # nothing is left, unless this coroutine was closed half-way
            inner.close_sockets()
            names = tuple(name for tasks in self._task_sets() for name in tasks.names())
            inner.emit(ClientClosed(names, len(inner.sockets)))
            self._closing.set_result(None)
        if cancelled is not None:
            raise cancelled

    def _task_sets(self) -> list[TaskSet]:
        own = (self._worker_tasks, self._output_tasks, self._coordinator_tasks)
        return [*own, *self._inner.calls]

    def __del__(self) -> None:
        # Dropped without shutdown: nothing of ours may go on, and nobody may wait for ever.
        if not hasattr(self, "_closing") or self._closing is not None or self._loop.is_closed():
            return  # never begun (``connect`` cleans up), or over
        self._inner.fail(ClientClosedError())
        self._abort_worker.close()
        for tasks in (self._worker_tasks, self._output_tasks, self._coordinator_tasks):
            tasks.cancel()
        self._inner.close_sockets()


async def _settled(future: asyncio.Future[None]) -> None:
    """Wait for a future of somebody else: being cancelled must not cancel theirs."""
    mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_future: object) -> None:
        resolve(mine)

    future.add_done_callback(wake)
    try:
        await mine
    finally:
        future.remove_done_callback(wake)


def _fault_handler(inner: ClientInner) -> Callable[[str, BaseException], None]:
    """A task of ours that ends by a fault of ours closes the client; nothing goes on half."""

    def on_fault(name: str, error: BaseException) -> None:
        inner.fail(DispatcherClosed(f"{name} ended with {error!r}"))

    return on_fault


def _ways_back(
    inner: ClientInner, worker: AbortWorker, request: Request
) -> tuple[Callable[[], None], Callable[[], None]]:
    """How a request leaves early: without a trace, or with an ABORT behind its ADD."""

    def roll_back() -> None:
        if not inner.release(request, "rolled-back"):
            inner.requests.departed(request)

    def abort() -> None:
        request.sent = True  # or given up: whoever aborts it from now on sends ABORT himself
        if request.abort_due:
            worker.follow_up(request)
        else:
            worker.drop(request)

    return roll_back, abort


def _make_coordinator(
    config: ClientConfig, connected: Connected, inner: ClientInner
) -> Coordinator | None:
    starts_waves = config.profile.frontend_starts_waves
    if connected.coordinator is not None:
        state = inner.components.coordinator(frontend_starts_waves=starts_waves)
        publisher, notices = connected.coordinator
        return InProcessRunner(inner, state, publisher=publisher, notices=notices)
    if connected.front is not None:
        view = inner.components.external_view(frontend_starts_waves=starts_waves)
        return ExternalRunner(inner, view, socket=connected.front)
    return None
