"""One run of the real frontend, behind ``harness.targets.base.Frontend``.

Everything is seen from outside: HTTP and gRPC answers, the log, the exit code. Nothing is
polled that can notify us; what is polled (readiness, the count of open requests) is a state that
the frontend shows, and each such wait has a bound after which the harness, not the frontend,
is to blame (``TargetError``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from client.aio import DeadlineExceeded, with_deadline
from client.protocol.ids import FENCE_METHOD
from client.protocol.profiles import Profile
from harness.exit_words import ended
from harness.scenario.model import CallStep, GrpcStep, HttpStep, Surface, Topology, UtilityStep
from harness.targets.base import (
    AbortLine,
    CallResult,
    Health,
    Metrics,
    NoServer,
    OnOutput,
    ProcessUse,
    RequestResult,
    TargetError,
    UtilityResult,
)
from harness.targets.coordinator_handle import CoordinatorHandle
from harness.targets.vllm_rs import admin_routes
from harness.targets.vllm_rs.adapters import Adapters
from harness.targets.vllm_rs.bounded import pause
from harness.targets.vllm_rs.callers import Callers
from harness.targets.vllm_rs.client_errors import adapter_rejected, classify, http_error_name
from harness.targets.vllm_rs.http_api import Answer, WaitAtGate
from harness.targets.vllm_rs.http_surfaces import error_message
from harness.targets.vllm_rs.life import Life
from harness.targets.vllm_rs.surfaces import GRPC, external_id
from harness.trace.events import Snapshot
from mock_engines.cluster import JoinAddresses

_POLL_S = 0.005
_FENCE_TIMEOUT_S = 10.0
_PARTIAL_FENCE_S = 0.5
"""With an engine gone, the round trip cannot end; the others have answered long before."""
_LOG_TIMEOUT_S = 1.0
_NOT_FOUND = 404


class VllmRsFrontend(NoServer):
    """A ``vllm-rs`` process. Create, ``prepare``, ``start``, use, ``stop``."""

    tells_when_off = True

    def __init__(
        self,
        life: Life,
        *,
        topology: Topology,
        profile: Profile,
        wait_at: WaitAtGate | None = None,
    ) -> None:
        """Set up, without touching the system.

        Args:
            life: how it begins and ends.
            topology: of the scenario.
            profile: of the release, which decides routes and shapes.
            wait_at: returns when a named gate is open.
        """
        self._life = life
        self._release = profile.release
        self._topology = topology
        self._callers = Callers(profile.release, wait_at)
        self._adapters: Adapters | None = None

    # --- life ---------------------------------------------------------------------------

    @property
    def killed(self) -> bool:
        """Whether somebody else killed its process."""
        return self._life.killed

    @property
    def stands_still(self) -> bool:
        """Whether somebody else stopped its process."""
        return self._life.stands_still

    async def prepare(self) -> None:
        """Prepare the start; ``addresses`` is final afterwards."""
        await self._life.prepare()
        self._adapters = Adapters(self._life.lora_folder)

    @property
    def addresses(self) -> JoinAddresses:
        """Where the engines join."""
        return self._life.addresses

    @property
    def coordinator(self) -> CoordinatorHandle | None:
        """The external coordinator of the run, which is ours."""
        return self._life.coordinator

    async def start(self) -> None:
        """Start, and wait until it serves; engines must join meanwhile."""
        http = self._callers.connect(self._life.http, self._life.grpc, self._life.model)
        await self._life.start(http)

    async def shutdown(self, timeout_s: float) -> None:
        """Let it end in order. The drain time was given at the start."""
        await self._life.shutdown(timeout_s)

    async def signal(self, name: str) -> None:
        """Send ``SIG<name>`` to the frontend's process."""
        await self._life.signal(name)

    async def process_use(self) -> ProcessUse | None:
        """What the frontend's process uses."""
        return self._life.use()

    async def exit_code(self) -> int | None:
        """Exit code, once it has ended."""
        return await self._life.exit_code()

    async def stop(self) -> None:
        """Release process, connections and ports, whatever the state."""
        try:
            await self._callers.close()
        finally:
            await self._life.stop()

    # --- operations ---------------------------------------------------------------------

    def external_id(self, step: CallStep) -> str:
        """HTTP APIs put a prefix before the given id, the raw route and gRPC do not."""
        return external_id(step)

    async def generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        """Run one generation on the surface that the step names."""
        return await self._callers.generate(step, on_output)

    def hurries(self, surface: Surface) -> bool:
        """HTTP callers can hurry."""
        return not surface.startswith(GRPC)

    async def hurry(self, calls: Sequence[CallStep], at_once: int, spread_s: float) -> None:
        """Callers who hang up and do nothing else."""
        await self._callers.hurry(calls, at_once, spread_s)

    async def abort_line(self) -> AbortLine:
        """Open a connection for aborts."""
        return await self._callers.http_api.abort_line()

    async def http(self, step: HttpStep) -> RequestResult:
        """Send any HTTP request."""
        return await self._callers.http(step)

    async def grpc(self, step: GrpcStep) -> RequestResult:
        """Make any gRPC call."""
        return await self._callers.grpc(step)

    async def metrics(self) -> Metrics | None:
        """All samples of ``/metrics``."""
        return await self._callers.metrics()

    async def utility(self, step: UtilityStep) -> UtilityResult:
        """Run one utility call over its admin route."""
        reason = admin_routes.unsupported(step, self._release)
        if reason is not None or self._adapters is None:
            raise TargetError(reason or "the frontend was not prepared")
        request = self._adapters.complete(admin_routes.request_of(step))
        answer = await self._callers.http_api.request(
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
        answer = await self._callers.http_api.request(
            "POST", "/abort_requests", body={"request_ids": request_ids}
        )
        if answer.status == _NOT_FOUND:
            msg = f"{self._release} has no route /abort_requests"
            raise TargetError(msg)

    # --- observations -------------------------------------------------------------------

    async def health(self) -> Health:
        """Status of ``/health``; the cause comes from the log.

        The log names a fatal error a moment before it takes effect, so a good status is looked at
        again for a while once it has.
        """
        if (code := self._life.ended) is not None:
            return self._gone(code)
        answer = await self._callers.http_api.probe("/health")
        if answer.ok and self._life.log.fatal is not None:
            with suppress(DeadlineExceeded):
                answer = await with_deadline(self._ill(), _LOG_TIMEOUT_S, name="frontend: ill")
        if answer.ok:
            return Health(True)
        if answer.lost is not None:
            # Its sockets go a moment before the process does.
            if (code := await self._life.exit_code()) is not None:
                return self._gone(code)
            return Health(False, answer.lost, answer.body)
        with suppress(DeadlineExceeded):
            await with_deadline(self._life.log.failed(), _LOG_TIMEOUT_S, name="frontend: cause")
        cause = self._life.log.fatal
        message = cause or f"HTTP {answer.status}"
        return Health(False, None if cause is None else classify(cause), message)

    def _gone(self, code: int) -> Health:
        """The cause of an earlier failure stays what it was, also when the process has ended."""
        cause = self._life.log.fatal
        if cause is not None:
            return Health(False, classify(cause), cause)
        return Health(False, "ProcessExited", f"it {ended(code)}")

    async def _ill(self) -> Answer:
        """Return the first answer of ``/health`` that is not good."""
        while (answer := await self._callers.http_api.probe("/health")).ok:
            await pause(_POLL_S)
        return answer

    async def snapshot(self, label: str) -> Snapshot | None:
        """Nothing: the registries of a black box cannot be seen."""
        del label
        return None

    async def server_info(self) -> Mapping[str, Any]:
        """Sizes as ``/get_world_size`` shows them, and the version (≥ 0.24).

        The data-parallel size has no route of its own: it is the quotient of the two.
        """
        api = self._callers.http_api
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
        if not self._sound:
            return
        try:
            await with_deadline(self._balanced(), _FENCE_TIMEOUT_S, name="frontend: load")
            await self._round_trip(live_ranks)
            await with_deadline(self._balanced(), _FENCE_TIMEOUT_S, name="frontend: load")
        except DeadlineExceeded:
            served = await self._callers.http_api.open_requests()
            msg = (
                f"the frontend says that it serves {served} requests, of ours are "
                f"{self._callers.http_api.open_calls}, and did not agree within {_FENCE_TIMEOUT_S:g} s"
            )
            raise TargetError(msg) from None

    @property
    def _sound(self) -> bool:
        """Whether it runs, and its log names no fatal error."""
        return self._life.running and self._life.log.fatal is None

    async def _balanced(self) -> None:
        api = self._callers.http_api
        await self._callers.leavers_gone()
        while self._sound:
            load = await api.open_requests()
            if api.open_calls.agrees(load):
                return
            await pause(_POLL_S)

    async def _round_trip(self, live_ranks: tuple[int, ...]) -> None:
        whole = len(live_ranks) == len(self._topology.rank_list)
        if not live_ranks:
            return
        call = self._callers.http_api.request(
            "POST", "/collective_rpc", body={"method": FENCE_METHOD}
        )
        limit = _FENCE_TIMEOUT_S if whole else _PARTIAL_FENCE_S
        try:
            answer = await with_deadline(call, limit, name="frontend: fence")
        except DeadlineExceeded:
            if whole and self._sound:
                msg = f"no answer to the fence within {limit:g} s from ranks {live_ranks}"
                raise TargetError(msg) from None
            return
        if answer.status == _NOT_FOUND:
            msg = (
                "the frontend has no /collective_rpc, which the harness needs to fence; it was "
                "started without VLLM_SERVER_DEV_MODE=1"
            )
            raise TargetError(msg)


def _number(answer: Answer, name: str) -> int | None:
    decoded = answer.json()
    value = decoded.get(name) if isinstance(decoded, dict) else None
    return value if isinstance(value, int) else None
