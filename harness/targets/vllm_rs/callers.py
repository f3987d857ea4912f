"""The callers of one frontend: generations on every surface, HTTP requests, gRPC calls, metrics."""

from __future__ import annotations

from collections.abc import Sequence

from harness.scenario.model import CallStep, GrpcStep, HttpStep
from harness.targets.base import CallResult, Metrics, OnOutput, RequestResult, TargetError
from harness.targets.vllm_rs.grpc_api import GrpcApi
from harness.targets.vllm_rs.http_api import HttpApi, WaitAtGate
from harness.targets.vllm_rs.http_surfaces import STREAM
from harness.targets.vllm_rs.metrics import parse_metrics
from harness.targets.vllm_rs.surfaces import GRPC, surface_of


class Callers:
    """Made before the start; ``connect`` when the addresses are final, ``close`` when done."""

    def __init__(self, release: str, wait_at: WaitAtGate | None = None) -> None:
        """``wait_at`` returns when a named gate is open: callers who do not read wait there."""
        self._release = release
        self._wait_at = wait_at
        self._http: HttpApi | None = None
        self._grpc: GrpcApi | None = None
        self._grpc_address: str | None = None
        self._model = ""

    def connect(self, http: str, grpc: str | None, model: str) -> HttpApi:
        """Say where the frontend serves; nothing is sent yet. Returns its HTTP side."""
        self._http = HttpApi(http, model, self._wait_at)
        self._grpc_address = grpc
        self._model = model
        return self._http

    async def close(self) -> None:
        """Close what outlives its caller: the gRPC channel. HTTP callers close their own."""
        if self._grpc is not None:
            await self._grpc.close()

    @property
    def http_api(self) -> HttpApi:
        """The HTTP side. Raises ``TargetError`` before ``connect``."""
        if self._http is None:
            msg = "the frontend was not started"
            raise TargetError(msg)
        return self._http

    @property
    def grpc_api(self) -> GrpcApi:
        """The gRPC side. Raises ``TargetError`` if the frontend has none."""
        if self._grpc is None:
            if self._grpc_address is None:
                msg = f"a frontend of {self._release} that is run so has no gRPC server"
                raise TargetError(msg)
            self._grpc = GrpcApi(self._grpc_address, self._release, self._model, self._wait_at)
        return self._grpc

    async def generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        """Run one generation on the surface that the step names."""
        surface = surface_of(step)
        if surface.removesuffix(STREAM) == GRPC:
            given = step.request_id or step.id
            return await self.grpc_api.generate(
                step, given, on_output, stream=surface.endswith(STREAM)
            )
        return await self.http_api.generate(step, surface, on_output)

    async def hurry(self, calls: Sequence[CallStep], at_once: int, spread_s: float) -> None:
        """Callers of one HTTP surface who hang up."""
        await self.http_api.hurry(calls, surface_of(calls[0]), at_once, spread_s)

    async def http(self, step: HttpStep) -> RequestResult:
        """Send any HTTP request."""
        return await self.http_api.http(step)

    async def grpc(self, step: GrpcStep) -> RequestResult:
        """Make any gRPC call."""
        return await self.grpc_api.call(step)

    async def metrics(self) -> Metrics | None:
        """All samples of ``/metrics``; ``None`` if there is no answer."""
        answer = await self.http_api.probe("/metrics")
        return parse_metrics(answer.body, self._model) if answer.ok else None

    async def leavers_gone(self) -> None:
        """Return once the frontend has read that gRPC callers left; ``/load`` shows the others."""
        if self._grpc is not None:
            await self._grpc.settled()
