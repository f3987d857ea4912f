"""gRPC ``vllm.Control`` (0.27 on, most of it since 0.28) and the health service.

Source: protocol page, sections 10 and 18.3; messages as measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any

import grpc

from client.aio import resolve
from client.engine_client import EngineClient
from client.errors import ClientError
from client.protocol.profiles import Profile
from harness.reference_frontend.generation import Generation
from harness.reference_frontend.grpc_generate import Method, Status
from harness.reference_frontend.grpc_messages import messages
from harness.reference_frontend.texts import client_error_text, since

SERVICES = ("", "vllm.Inference", "vllm.Control")
"""Names that the health service knows; the empty one is the server."""
_SERVING, _NOT_SERVING = 1, 2
_MODES = {0: "abort", 1: "abort", 2: "wait", 3: "keep"}


class Control:
    """The methods of one server."""

    def __init__(self, client: EngineClient, profile: Profile, generation: Generation) -> None:
        self._client = client
        self._profile = profile
        self._generation = generation
        self._messages = messages()

    def methods(self) -> Mapping[str, tuple[Method, str]]:
        """Return method name → handler and request message, for this release."""
        found: dict[str, tuple[Method, str]] = {
            "GetServerInfo": (self._server_info, "Empty"),
            "Abort": (self._abort, "AbortRequest"),
        }
        if since(self._profile, "0.28"):
            found |= {
                "PauseGeneration": (self._pause, "PauseRequest"),
                "ResumeGeneration": (self._resume, "Empty"),
                "IsPaused": (self._is_paused, "Empty"),
                "Sleep": (self._sleep, "SleepRequest"),
                "WakeUp": (self._wake_up, "WakeUpRequest"),
                "IsSleeping": (self._is_sleeping, "Empty"),
                "GetWeightVersion": (self._weight_version, "Empty"),
                "UpdateWeightVersion": (self._update_weight_version, "WeightVersion"),
            }
        return found

    async def _do(self, method: str, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except ClientError as error:
            text = f"{method} failed: {client_error_text(error, self._profile)}"
            raise Status(grpc.StatusCode.INTERNAL, text) from error

    def _empty(self) -> Any:
        return self._messages["Empty"]()

    def _needs_sleep_mode(self) -> None:
        if self._client.first("enable_sleep_mode") is False:
            text = "the engines run without sleep mode"
            raise Status(grpc.StatusCode.FAILED_PRECONDITION, text)

    async def _server_info(self, _request: Any, _context: Any) -> Any:
        known = self._client.first
        info = self._messages["ServerInfo"](
            engine_version=known("vllm_version") or "",
            api_version="vllm",
            instance_id=known("instance_id") or "",
            max_model_len=self._client.max_model_len() or 0,
            kv_block_size=known("block_size") or 0,
            total_kv_blocks=self._client.num_gpu_blocks(),
            max_running_requests=known("max_num_seqs") or 0,
            max_batched_tokens=known("max_num_batched_tokens") or 0,
            max_loras=known("max_loras") or 0,
        )
        parallel = info.parallelism
        parallel.tensor = known("tensor_parallel_size") or 0
        parallel.pipeline = known("pipeline_parallel_size") or 0
        parallel.data_parallel_size = self._client.data_parallel_size
        parallel.data_parallel_rank = known("data_parallel_rank") or 0
        parallel.decode_context = known("decode_context_parallel_size") or 0
        parallel.world_size = self._client.world_size() or 0
        return info

    async def _abort(self, request: Any, _context: Any) -> Any:
        await self._do("abort", self._generation.abort(list(request.request_ids)))
        return self._empty()

    async def _pause(self, request: Any, _context: Any) -> Any:
        clear = request.clear_cache if request.HasField("clear_cache") else True
        await self._do("pause", self._client.pause(self._mode(request), clear))
        return self._empty()

    async def _resume(self, _request: Any, _context: Any) -> Any:
        await self._do("resume", self._client.resume())
        return self._empty()

    async def _is_paused(self, _request: Any, _context: Any) -> Any:
        return self._messages["Flag"](value=await self._do("is_paused", self._client.is_paused()))

    async def _sleep(self, request: Any, _context: Any) -> Any:
        self._needs_sleep_mode()
        level = request.level if request.HasField("level") else 1
        await self._do("sleep", self._client.sleep(level, self._mode(request)))
        return self._empty()

    async def _wake_up(self, request: Any, _context: Any) -> Any:
        self._needs_sleep_mode()
        await self._do("wake_up", self._client.wake_up(list(request.tags) or None))
        return self._empty()

    async def _is_sleeping(self, _request: Any, _context: Any) -> Any:
        value = await self._do("is_sleeping", self._client.is_sleeping())
        return self._messages["Flag"](value=value)

    async def _weight_version(self, _request: Any, _context: Any) -> Any:
        version = await self._do("get_weight_version", self._client.get_weight_version())
        return self._messages["WeightVersion"](version=version)

    async def _update_weight_version(self, request: Any, _context: Any) -> Any:
        await self._do("set_weight_version", self._client.set_weight_version(request.version))
        return self._empty()

    @staticmethod
    def _mode(request: Any) -> str:
        if request.mode not in _MODES:
            text = f"unknown pause mode {request.mode}"
            raise Status(grpc.StatusCode.INVALID_ARGUMENT, text)
        return _MODES[request.mode]


class Health:
    """``grpc.health.v1.Health``: the state of the client, and of a server that shuts down."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._closing = False
        self._watchers: list[asyncio.Future[None]] = []
        self._answer = messages()["HealthCheckResponse"]

    def changed(self) -> None:
        """Tell the watchers to look again."""
        for watcher in self._watchers:
            resolve(watcher)

    def close(self) -> None:
        """The server shuts down: not serving, from now on."""
        self._closing = True
        self.changed()

    def _status(self) -> int:
        return _SERVING if self._client.is_healthy and not self._closing else _NOT_SERVING

    async def check(self, request: Any, _context: Any) -> Any:
        """Return the state now. Raises ``Status`` for an unknown service."""
        if request.service not in SERVICES:
            raise Status(grpc.StatusCode.NOT_FOUND, "service not registered")
        return self._answer(status=self._status())

    async def watch(self, request: Any, _context: Any) -> AsyncIterator[Any]:
        """Yield the state now and after each change, until the server shuts down."""
        if request.service not in SERVICES:
            raise Status(grpc.StatusCode.NOT_FOUND, "service not registered")
        told = None
        while True:
            status = self._status()
            if status != told:
                yield self._answer(status=status)
                told = status
            if self._closing:
                return
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            try:
                await watcher
            finally:
                self._watchers.remove(watcher)
