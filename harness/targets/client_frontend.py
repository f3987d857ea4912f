"""The reference client as a frontend: used by ``sim`` and ``zmq``, which differ in world only."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from client.aio import DeadlineExceeded, pause, resolve, with_deadline
from client.components import Components
from client.config import (
    Bootstrapped,
    ClientConfig,
    HandshakeOwner,
    InProcessCoordinator,
)
from client.engine_client import EngineClient
from client.errors import ClientError, UtilityCallTimeout
from client.errors import Transport as TransportFailed
from client.events import Observer
from client.protocol.ids import FENCE_METHOD, RequestId
from client.protocol.messages import EngineCoreRequest
from client.protocol.profiles import Profile
from client.protocol.transport import Transport
from client.utility import CONFIGURED, Timeout
from harness.faults import FaultTransport
from harness.scenario.model import CallStep, ScaleStep, Topology, UtilityStep
from harness.targets.base import (
    CallResult,
    Emit,
    Health,
    Launcher,
    NoServer,
    OnOutput,
    ScaleResult,
    TargetError,
    UtilityResult,
)
from harness.targets.coordinator_handle import CoordinatorHandle
from harness.targets.external import make_coordinator
from harness.targets.sizes import sizes_of
from harness.trace.events import ClientReleased, Snapshot
from mock_engines.cluster import JoinAddresses

CAPABILITIES = frozenset(
    {
        "op.generate", "op.cancel", "op.drop", "op.abort", "op.rank", "op.rank-text",
        "op.kv-transfer", "op.aux", "op.utility", "op.utility-raw", "op.utility-timeout",
        "op.server-info", "op.shutdown", "op.connect-error", "op.unencodable",
        "surface.native", "surface.http", "surface.http-stream", "surface.grpc",
        "surface.grpc-stream", "see.wire", "see.results", "see.health", "see.health-error",
        "see.registries", "see.coordinator", "see.client-events", "see.failure",
        "see.publishes",
        "coordinator.none", "coordinator.in-process", "coordinator.external",
        "transport.handshake-owner", "transport.bootstrapped", "topology.any-ranks",
        "topology.two-frontends",
        "fault.link", "fault.engine-vanish", "fault.engine-stall", "fault.engine-rejoin",
    }
)  # fmt: skip

UNENCODABLE = object()
"""A value that no codec can encode; stands for any bug in preparing a message."""

RESULT_TYPES: Mapping[str, Any] = {
    "bool": bool,
    "none": type(None),
    "int": int,
    "str": str,
    "list": list,
    "any": object,
}
DEFAULT_READY_TIMEOUT_S = 30.0
FENCE_ATTEMPT_S = 0.5
"""How long one round trip of a fence may take before it is tried again, seconds."""
FENCE_PAUSE_S = 0.01
"""Between two attempts at an engine that is not reachable yet, seconds."""


class ClientFrontend(NoServer):
    """Drives one ``EngineClient`` (and its external coordinator, if the topology has one)."""

    def __init__(
        self,
        *,
        topology: Topology,
        profile: Profile,
        transport: Transport,
        components: Components,
        observer: Observer,
        emit: Emit,
        wait_gate: Callable[[str], Any],
    ) -> None:
        self._topology = topology
        self._profile = profile
        self._observer = observer
        self._emit = emit
        self._components = components
        self.faults = FaultTransport(transport, wait_gate)
        self._plain = transport
        self._client: EngineClient | None = None
        self.coordinator: CoordinatorHandle | None = None
        self._addresses = self._choose_addresses()
        self._start_error: ClientError | None = None
        self._open_calls = 0
        self._quiet: asyncio.Future[None] | None = None

    def _choose_addresses(self) -> JoinAddresses:
        transport, topology = self._plain, self._topology
        in_process = topology.coordinator == "in-process"
        return JoinAddresses(
            handshake=(
                transport.endpoint("handshake") if topology.transport == "handshake-owner" else None
            ),
            input=transport.endpoint("input"),
            output=transport.endpoint("output"),
            coordinator_input=transport.endpoint("coordinator-input") if in_process else None,
            coordinator_output=transport.endpoint("coordinator-output") if in_process else None,
        )

    @property
    def addresses(self) -> JoinAddresses:
        """Where the engines join."""
        return self._addresses

    async def prepare(self) -> None:
        """Start the external coordinator, which outlives and precedes the client."""
        if self._topology.coordinator != "external":
            return
        self.coordinator = self._make_coordinator()
        await self.coordinator.start()
        self._addresses = dataclasses.replace(
            self._addresses,
            coordinator_input=self.coordinator.back_input_address,
            coordinator_output=self.coordinator.back_output_address,
        )

    def _make_coordinator(self) -> CoordinatorHandle:
        """Make the external coordinator of this run; another target has another one."""
        return make_coordinator(
            self._topology, self._profile, self._plain, self._observer, self._components
        )

    def _coordinator_address(self) -> str | None:
        """Front address of the external coordinator, wherever that runs."""
        return None if self.coordinator is None else self.coordinator.front_address

    def _config(self) -> ClientConfig:
        topology, given, addresses = self._topology, self._topology.config, self._addresses
        sizes = sizes_of(topology)
        if addresses.input is None or addresses.output is None:
            msg = "data plane addresses are missing"
            raise TargetError(msg)
        mode: HandshakeOwner | Bootstrapped
        if topology.transport == "handshake-owner":
            in_process = None
            if topology.coordinator == "in-process":
                assert addresses.coordinator_input is not None
                assert addresses.coordinator_output is not None
                in_process = InProcessCoordinator(
                    addresses.coordinator_input, addresses.coordinator_output
                )
            assert addresses.handshake is not None
            mode = HandshakeOwner(
                handshake_address=addresses.handshake,
                input_address=addresses.input,
                output_address=addresses.output,
                engine_count=sizes.engine_count,
                data_parallel_size=sizes.data_parallel_size,
                coordinator=in_process,
            )
        else:
            mode = Bootstrapped(
                input_address=addresses.input,
                output_address=addresses.output,
                engine_start_index=sizes.engine_start_index,
                engine_count=sizes.engine_count,
                data_parallel_size=sizes.data_parallel_size,
                coordinator_address=self._coordinator_address(),
            )
        return ClientConfig(
            profile=self._profile,
            mode=mode,
            ready_timeout_s=given.ready_timeout_s or DEFAULT_READY_TIMEOUT_S,
            utility_timeout_s=given.utility_timeout_s,
        )

    async def start(self) -> None:
        """Connect. Raises a ``ClientError`` that a scenario may expect."""
        try:
            self._client = await EngineClient.connect(
                self._config(),
                self.faults,
                observer=self._observer,
                components=self._components,
            )
        except ClientError as error:
            self._start_error = error
            raise

    @property
    def client(self) -> EngineClient:
        """The connected client. Raises ``TargetError`` before ``start`` succeeded."""
        if self._client is None:
            msg = "the client is not connected"
            raise TargetError(msg) from self._start_error
        return self._client

    def external_id(self, step: CallStep) -> str:
        """The native API adds no prefix."""
        return step.request_id or step.id

    def _request(self, step: CallStep) -> EngineCoreRequest:
        rank = step.rank
        if step.rank_text is not None:
            # No HTTP or gRPC server here: the surface decides which edge's rule reads the text.
            http = step.surface.startswith("http")
            texts = self._components.rank_texts()
            rank = (texts.header if http else texts.metadata)(step.rank_text)
        params: dict[str, Any] = {"max_tokens": step.max_tokens}
        if step.kv_transfer_params is not None:
            params["extra_args"] = {"kv_transfer_params": step.kv_transfer_params}
        if step.unencodable:
            params["extra_args"] = {"broken": UNENCODABLE}
        name = self.external_id(step)
        return EngineCoreRequest(
            request_id=RequestId(name),
            external_req_id=name,
            prompt_token_ids=tuple(step.prompt),
            sampling_params=params,
            data_parallel_rank=rank,
        )

    async def _served(self) -> None:
        """Return once no call is open."""
        while self._open_calls:
            self._quiet = asyncio.get_running_loop().create_future()
            await self._quiet

    async def generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        """Read one stream to its end. Cancelling the task closes it."""
        self._open_calls += 1
        try:
            return await self._generate(step, on_output)
        finally:
            self._open_calls -= 1
            if not self._open_calls and self._quiet is not None:
                resolve(self._quiet)

    async def _generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        kv: Mapping[str, Any] | None = None
        finish: str | None = None
        try:
            stream = await self.client.call(
                self._request(step), aux=tuple(bytes.fromhex(frame) for frame in step.aux)
            )
            async with stream:
                async for output in stream:
                    reason = output.finish_reason
                    finish = None if reason is None else reason.name.lower()
                    kv = output.kv_transfer_params or kv
                    on_output(tuple(output.new_token_ids), finish)
        except ClientError as error:
            return CallResult("failed", error=type(error).__name__, message=str(error))
        return CallResult("finished", finish=finish, kv_transfer_params=kv)

    async def utility(self, step: UtilityStep) -> UtilityResult:
        """Run one utility call by API method, raw, or with consensus."""
        args = [*step.args, UNENCODABLE] if step.unencodable else list(step.args)
        client = self.client
        timeout_s: Timeout = CONFIGURED if step.timeout_s is None else step.timeout_s
        try:
            if step.via == "raw":
                value = await client.call_utility(
                    step.method, args, RESULT_TYPES[step.result], timeout_s=timeout_s
                )
            elif step.via == "consensus":
                value = await client.call_utility_consensus(
                    step.method, args, RESULT_TYPES[step.result], timeout_s=timeout_s
                )
            else:
                limit = {} if step.timeout_s is None else {"timeout_s": step.timeout_s}
                value = await self._method(step.method)(*args, **limit)
        except ClientError as error:
            return UtilityResult("failed", error=type(error).__name__, message=str(error))
        return UtilityResult("finished", value=value)

    async def scale(self, step: ScaleStep, launcher: Launcher) -> ScaleResult:
        """Change the number of engines as vLLM's Python client does."""
        try:
            await self.client.scale(step.to, launcher)
        except ClientError as error:
            return ScaleResult("failed", error=type(error).__name__, message=str(error))
        return ScaleResult("finished")

    def _method(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name, None)
        if name.startswith("_") or not callable(method):
            msg = f"the client has no method {name!r}"
            raise TargetError(msg)
        return method  # type: ignore[no-any-return]

    async def abort(self, request_ids: list[str]) -> None:
        """Abort explicitly; internal and external ids are the same here."""
        await self.client.abort([RequestId(name) for name in request_ids])

    async def health(self) -> Health:
        """Health and its sticky error."""
        error = self.client.health_error
        if error is None:
            return Health(self.client.is_healthy)
        return Health(False, type(error).__name__, str(error))

    async def snapshot(self, label: str) -> Snapshot | None:
        """All registries."""
        if self._client is None:
            return None
        shot = self.client.snapshot()
        return Snapshot(
            label=label,
            in_flight=tuple(shot.in_flight),
            departing=tuple(shot.departing),
            pending_utility=tuple(shot.pending_utility_calls),
            loads=tuple(shot.loads),
            wave=shot.current_wave,
            running=shot.engines_running,
        )

    async def server_info(self) -> Mapping[str, Any]:
        """Configured sizes."""
        return self.client.server_info()

    async def fence(self, live_ranks: tuple[int, ...]) -> None:
        """Round trip to every live engine, behind everything that was sent before.

        A client that failed, before or meanwhile, sends and takes nothing any more.
        """
        if self._client is None or self.client.health_error is not None:
            return
        await self.client.drained()
        try:
            for rank in live_ranks:
                await self._reach(rank)
        except ClientError:
            if self.client.health_error is None:
                raise

    async def _reach(self, rank: int) -> None:
        """Round trip to one engine.

        After a reconnect the first attempts may be refused or lost until the socket has
        noticed; the driver's step limit bounds the attempts.
        """
        while True:
            try:
                await self.client.call_utility(
                    FENCE_METHOD, (), object, timeout_s=FENCE_ATTEMPT_S, only=(rank,)
                )
            except UtilityCallTimeout:
                continue
            except TransportFailed:
                if self.client.health_error is not None:
                    raise  # not this engine, but the client
                await pause(FENCE_PAUSE_S)
            else:
                return

    async def shutdown(self, timeout_s: float) -> None:
        """Orderly shutdown: wait for open calls as a server does, then close the client.

        The client itself waits for nothing; draining is the server's part, and this class
        stands for it.
        """
        with contextlib.suppress(DeadlineExceeded):
            # When the drain time is over, what is still open ends with ClientClosed.
            await with_deadline(self._served(), timeout_s)
        if self._client is not None:
            await self._client.shutdown()

    async def stop(self) -> None:
        """Release client, coordinator and sockets."""
        try:
            if self._client is not None:
                await self._client.shutdown()
                gone = weakref.ref(self._client)
                self._client = None
                # A traceback may hold it in a cycle; that is no leak. In simulation all that this
                # run made is young still, and only if that does not do is everything looked at.
                for generation in (0, 2):
                    if gone() is not None:
                        gc.collect(generation)
                self._emit(ClientReleased(alive=gone() is not None))
        finally:
            if self.coordinator is not None:
                await self.coordinator.stop()
