"""One run of the real frontend, behind ``harness.targets.base.Frontend``.

Everything is seen from outside: HTTP and gRPC answers, the log, the exit code. Nothing is
polled that can notify us; what is polled (readiness, the count of open requests) is a state that
the frontend shows, and each such wait has a bound after which the harness, not the frontend,
is to blame (``TargetError``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from signal import SIGKILL
from typing import Any

from client.aio import DeadlineExceeded, resolve, with_deadline
from client.events import HealthFailed
from client.protocol.ids import FENCE_METHOD
from client.protocol.profiles import Profile
from harness.scenario.model import CallStep, Topology, UtilityStep
from harness.targets.base import (
    CallResult,
    Emit,
    Health,
    OnOutput,
    TargetError,
    UtilityResult,
)
from harness.targets.vllm_rs import admin_routes
from harness.targets.vllm_rs.adapters import Adapters
from harness.targets.vllm_rs.bounded import pause
from harness.targets.vllm_rs.client_errors import adapter_rejected, classify, http_error_name
from harness.targets.vllm_rs.command import (
    HOST,
    LogLevel,
    ServeOptions,
    current_environment,
    serve_command,
    serve_environment,
)
from harness.targets.vllm_rs.fetch import FrontendBinary
from harness.targets.vllm_rs.grpc_api import GrpcApi
from harness.targets.vllm_rs.http_api import COMPLETION_PREFIX, Answer, HttpApi, error_message
from harness.targets.vllm_rs.log_patterns import field
from harness.targets.vllm_rs.model_folder import LORA_FOLDER, model_folder
from harness.targets.vllm_rs.ports import PortLease
from harness.targets.vllm_rs.process import TERM_TIMEOUT_S, FrontendProcess
from harness.targets.vllm_rs.start_error import start_error
from harness.trace.events import LogLine, Snapshot
from mock_engines.cluster import JoinAddresses

_POLL_S = 0.005
_READY_TIMEOUT_S = 30.0
_READY_GRACE_S = 10.0
"""Beyond its own ready timeout the frontend must have given up."""
_FENCE_TIMEOUT_S = 10.0
_PARTIAL_FENCE_S = 0.5
"""With an engine gone, the round trip cannot end; the others have answered long before."""
_LOG_TIMEOUT_S = 1.0
_NOT_FOUND = 404
_FATAL_LINES = frozenset({"dispatcher-failed", "coordinator-failed", "external-failed"})


class VllmRsFrontend:
    """A ``vllm-rs serve`` process. Create, ``prepare``, ``start``, use, ``stop``."""

    def __init__(
        self,
        *,
        binary: FrontendBinary,
        topology: Topology,
        profile: Profile,
        emit: Emit,
        log_level: LogLevel = "debug",
        shutdown_timeout_s: float = 0.0,
        arguments: Sequence[str] = (),
        environment: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Set up, without touching the system.

        Args:
            binary: what to run; its release decides routes and shapes.
            topology: of the scenario; a coordinator makes the model MoE.
            profile: of the release, for reports.
            emit: receives log lines and the exit.
            log_level: ``all`` for the coordinator's lines too, ``info`` for runs with very
                many requests.
            shutdown_timeout_s: drain time, an option of the start (whole seconds).
            arguments: given to the process as they are, behind our own.
            environment: added to that of the process.
        """
        self._binary = binary
        self._release = profile.release
        self._topology = topology
        self._emit = emit
        self._log_level = log_level
        self._shutdown_timeout_s = shutdown_timeout_s
        self._arguments = tuple(arguments)
        self._environment = dict(environment)
        self._process = FrontendProcess(emit, self._on_line)
        self._lease: PortLease | None = None
        self._options: ServeOptions | None = None
        self._http: HttpApi | None = None
        self._grpc: GrpcApi | None = None
        self._adapters: Adapters | None = None
        self._open_calls = 0
        self._fatal: str | None = None
        self._fatal_seen: list[asyncio.Future[None]] = []

    # --- life ---------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Lease ports and make the model folder; ``addresses`` is final afterwards."""
        if self._topology.transport != "handshake-owner":
            msg = "this target runs the frontend as handshake owner only"
            raise TargetError(msg)
        model = model_folder(moe=self._topology.coordinator == "in-process")
        self._lease = PortLease(3)
        http_port, grpc_port, handshake_port = self._lease.ports
        self._options = ServeOptions(
            model=model,
            engines=len(self._topology.rank_list),
            http_port=http_port,
            grpc_port=grpc_port,
            handshake_port=handshake_port,
            ready_timeout_s=self._topology.config.ready_timeout_s,
            shutdown_timeout_s=self._shutdown_timeout_s,
            log_level=self._log_level,
        )
        self._adapters = Adapters(model / LORA_FOLDER)

    @property
    def options(self) -> ServeOptions:
        """Ports and model of this run. Raises ``TargetError`` before ``prepare``."""
        if self._options is None:
            msg = "the frontend was not prepared"
            raise TargetError(msg)
        return self._options

    @property
    def addresses(self) -> JoinAddresses:
        """Where the engines say HELLO; the frontend tells them the rest."""
        return JoinAddresses(handshake=f"tcp://{HOST}:{self.options.handshake_port}")

    async def start(self) -> None:
        """Start the process and wait until it serves; engines must join meanwhile."""
        options = self.options
        self._http = HttpApi(options.http_port, str(options.model))
        await self._process.start(
            [*serve_command(self._binary.path, self._release, options), *self._arguments],
            {**serve_environment(options, current_environment()), **self._environment},
        )
        limit = (options.ready_timeout_s or _READY_TIMEOUT_S) + _READY_GRACE_S
        try:
            await with_deadline(self._serving(), limit, name="frontend: start")
        except DeadlineExceeded:
            last = "\n".join(self._process.tail[-5:])
            msg = f"the frontend neither served nor ended within {limit:g} s; it said:\n{last}"
            raise TargetError(msg) from None

    async def _serving(self) -> None:
        http = self._api()
        while True:
            if (code := self._process.exit_code) is not None:
                self._raise_start_error(code)
            if (await http.probe("/health")).status:
                return
            await pause(_POLL_S)

    def _raise_start_error(self, code: int) -> None:
        error = start_error(code, self._process.tail)
        if "in use" in str(error):
            msg = f"another program took a port that was just free: {error}"
            raise TargetError(msg) from error
        raise error

    def _api(self) -> HttpApi:
        if self._http is None:
            msg = "the frontend was not started"
            raise TargetError(msg)
        return self._http

    async def shutdown(self, timeout_s: float) -> None:
        """SIGTERM, and wait for the end. The drain time was given at the start."""
        limit = max(timeout_s, self._shutdown_timeout_s) + TERM_TIMEOUT_S
        code = await self._process.terminate(limit)
        if code is None or code == -SIGKILL:
            msg = f"the frontend did not end within {limit:g} s of SIGTERM"
            raise TargetError(msg)
        if code < 0:
            msg = (
                f"SIGTERM killed {self._binary.path.name} instead of shutting it down; a script "
                "that starts the frontend must do so with `exec`"
            )
            raise TargetError(msg)

    async def stop(self) -> None:
        """Release process, connections and ports, whatever the state."""
        try:
            if self._grpc is not None:
                await self._grpc.close()
            if self._http is not None:
                await self._http.close()
        finally:
            try:
                await self._process.terminate()
            finally:
                # Cancelled in mid-wait, the process must not stay.
                self._process.kill()
                if self._lease is not None:
                    self._lease.release()

    def _on_line(self, line: LogLine) -> None:
        """Turn the log's word of a fatal error into the event that says the same."""
        if line.pattern not in _FATAL_LINES:
            return
        message = field(line, "error") or line.text
        first = self._fatal is None
        self._emit(HealthFailed(classify(message) or "unknown", message, first))
        if first:
            self._fatal = message
            for waiter in self._fatal_seen:
                resolve(waiter)

    # --- operations ---------------------------------------------------------------------

    def external_id(self, step: CallStep) -> str:
        """HTTP puts a prefix before the given id, gRPC does not."""
        given = step.request_id or step.id
        return given if self._surface(step).startswith("grpc") else COMPLETION_PREFIX + given

    @staticmethod
    def _surface(step: CallStep) -> str:
        if step.surface != "auto":
            return step.surface
        # A streamed answer does not carry kv_transfer_params, a whole one does.
        return "http-stream" if step.kv_transfer_params is None else "http"

    async def generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        """Run one generation on the surface that the step names."""
        given = step.request_id or step.id
        surface = self._surface(step)
        if surface.startswith("grpc"):
            return await self._grpc_api().generate(
                step, given, on_output, stream=surface == "grpc-stream"
            )
        self._open_calls += 1
        try:
            return await self._api().completion(
                step, given, on_output, stream=surface == "http-stream"
            )
        finally:
            self._open_calls -= 1

    def _grpc_api(self) -> GrpcApi:
        if self._grpc is None:
            options = self.options
            self._grpc = GrpcApi(options.grpc_port, self._release, str(options.model))
        return self._grpc

    async def utility(self, step: UtilityStep) -> UtilityResult:
        """Run one utility call over its admin route."""
        reason = admin_routes.unsupported(step, self._release)
        if reason is not None or self._adapters is None:
            raise TargetError(reason or "the frontend was not prepared")
        request = self._adapters.complete(admin_routes.request_of(step))
        answer = await self._api().request(
            request.verb, request.path, query=request.query, body=request.body
        )
        if answer.ok:
            value = admin_routes.value_of(step.method, answer.json(), self._release)
            return UtilityResult("finished", value, message=answer.body)
        if answer.lost is not None:
            return UtilityResult("failed", error=answer.lost, message=answer.body)
        message = error_message(answer.body)
        if adapter_rejected(message):
            return UtilityResult("finished", value=False, message=message)
        name = http_error_name(answer.status, message, explicit_rank=False)
        return UtilityResult("failed", error=name, message=message)

    async def abort(self, request_ids: list[str]) -> None:
        """Abort by external id (≥ 0.24)."""
        answer = await self._api().request(
            "POST", "/abort_requests", body={"request_ids": request_ids}
        )
        if answer.status == _NOT_FOUND:
            msg = f"{self._release} has no route /abort_requests"
            raise TargetError(msg)

    # --- observations -------------------------------------------------------------------

    async def health(self) -> Health:
        """Status of ``/health``; the cause comes from the log."""
        if (code := self._process.exit_code) is not None:
            return Health(False, "ProcessExited", f"exit code {code}")
        answer = await self._api().probe("/health")
        if answer.ok:
            return Health(True)
        if answer.lost is not None:
            return Health(False, answer.lost, answer.body)
        with suppress(DeadlineExceeded):
            await with_deadline(self._cause(), _LOG_TIMEOUT_S, name="frontend: cause")
        message = self._fatal or f"HTTP {answer.status}"
        return Health(False, None if self._fatal is None else classify(self._fatal), message)

    async def _cause(self) -> None:
        """Return once the log names the fatal error; it may lag behind the status."""
        if self._fatal is None:
            seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._fatal_seen.append(seen)
            await seen

    async def snapshot(self, label: str) -> Snapshot | None:
        """Nothing: the registries of a black box cannot be seen."""
        del label
        return None

    async def server_info(self) -> Mapping[str, Any]:
        """Sizes as ``/get_world_size`` shows them, and the version (≥ 0.24).

        The data-parallel size has no route of its own: it is the quotient of the two.
        """
        api = self._api()
        across = _number(await api.probe("/get_world_size"), "world_size")
        alone = _number(await api.probe("/get_world_size?include_dp=false"), "world_size")
        version = (await api.probe("/version")).json()
        return {
            "data_parallel_size": across // alone if across and alone else None,
            "world_size": across,
            "world_size_without_dp": alone,
            "vllm_version": version.get("version") if isinstance(version, dict) else None,
        }

    async def fence(self, live_ranks: tuple[int, ...]) -> None:
        """Return once what was sent before has been acted on.

        Three parts: the frontend serves exactly the calls that we know to be open (so callers
        who left are gone, and results have been read); a utility round trip behind all
        earlier messages of the same sockets; and the first part again.
        """
        if self._fatal is not None or not self._process.running:
            return
        try:
            await with_deadline(self._balanced(), _FENCE_TIMEOUT_S, name="frontend: load")
            await self._round_trip(live_ranks)
            await with_deadline(self._balanced(), _FENCE_TIMEOUT_S, name="frontend: load")
        except DeadlineExceeded:
            served = await self._api().open_requests()
            msg = (
                f"the frontend says that it serves {served} requests, {self._open_calls} are "
                f"open, and did not agree within {_FENCE_TIMEOUT_S:g} s"
            )
            raise TargetError(msg) from None

    async def _balanced(self) -> None:
        while self._process.running and self._fatal is None:
            if await self._api().open_requests() == self._open_calls:
                return
            await pause(_POLL_S)

    async def _round_trip(self, live_ranks: tuple[int, ...]) -> None:
        whole = len(live_ranks) == len(self._topology.rank_list)
        if not live_ranks:
            return
        call = self._api().request("POST", "/collective_rpc", body={"method": FENCE_METHOD})
        limit = _FENCE_TIMEOUT_S if whole else _PARTIAL_FENCE_S
        try:
            await with_deadline(call, limit, name="frontend: fence")
        except DeadlineExceeded:
            if whole and self._fatal is None and self._process.running:
                msg = f"no answer to the fence within {limit:g} s from ranks {live_ranks}"
                raise TargetError(msg) from None


def _number(answer: Answer, name: str) -> int | None:
    decoded = answer.json()
    value = decoded.get(name) if isinstance(decoded, dict) else None
    return value if isinstance(value, int) else None
