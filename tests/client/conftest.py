"""One client and engines that a test drives by hand, on the simulated loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from client.components import Components
from client.config import (
    Bootstrapped,
    ClientConfig,
    HandshakeOwner,
    InProcessCoordinator,
)
from client.coordinator_process import ExternalCoordinator
from client.engine_client import EngineClient
from client.protocol.codec import Codec
from client.protocol.ids import CallId, RequestId, Wave, identity_from_rank
from client.protocol.messages import (
    SUBSCRIBE_ALL,
    Abort,
    Add,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    EngineInput,
    FinishReason,
    Hello,
    Ready,
    ReadyResponse,
    StartDpWave,
    UtilityCall,
    UtilityOutput,
)
from client.protocol.profiles import NEWEST, Profile, profile_for
from client.protocol.transport import SocketKind, SocketOptions
from harness.faults import FaultTransport
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy

T = TypeVar("T")


def ready_values(profile: Profile, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "max_model_len": 4096, "num_gpu_blocks": 100, "block_size": 16, "dp_stats_address": None,
        "dtype": "bfloat16", "vllm_version": profile.release, "world_size": 2,
        "data_parallel_size": 1, "tensor_parallel_size": 2, "pipeline_parallel_size": 1,
        "decode_context_parallel_size": 1, "data_parallel_rank": 0, "max_num_seqs": 8,
        "max_num_batched_tokens": 64, "instance_id": "test", "supports_lora": False,
        "max_loras": 0, "mamba_block_size": None, "kv_cache_size_tokens": 1600,
        "kv_cache_max_concurrency": 2.0, "kv_events_config": None, "weight_transfer_backend": None,
        "enable_sleep_mode": True, "supports_draft_weight_updates": False,
        "effective_attention_block_size": 16, "coord_store_port": 0,
        "coordinator_input_address": None, "coordinator_output_address": None,
    }  # fmt: skip
    return {key: changes.get(key, values[key]) for key in profile.ready_keys}


@dataclass
class FakeEngine:
    """An engine without a will of its own. ``identity`` may be no rank at all."""

    world: World
    rank: int
    identity: bytes
    ready: dict[str, Any]
    inbox: list[EngineInput] = field(default_factory=list)
    waves: list[StartDpWave] = field(default_factory=list)
    gate: bool = False

    @property
    def codec(self) -> Codec:
        return self.world.codec

    async def connect(self) -> None:
        world, options = self.world, SocketOptions(identity=self.identity)
        self.dealer = await world.plain.connect(SocketKind.DEALER, world.input, options)
        self.push = await world.plain.connect(SocketKind.PUSH, world.output)
        if world.coordinator == "none":
            self.coordinator_push = self.push
        else:
            self.subscriber = await world.plain.connect(SocketKind.XSUB, world.back_input)
            self.coordinator_push = await world.plain.connect(SocketKind.PUSH, world.back_output)

    async def join(self) -> None:
        world = self.world
        if world.handshake is not None:
            options = SocketOptions(identity=self.identity)
            self.shake = await world.plain.connect(SocketKind.DEALER, world.handshake, options)
            await self.shake.send([self.codec.encode_hello(Hello())])
            await self.shake.recv()
        await self.connect()
        if world.coordinator != "none":
            await self.subscriber.send([SUBSCRIBE_ALL])
            world.spawn(self._read_waves(), f"waves {self.rank}")
        await self.dealer.send([self.codec.encode_ready_response(ReadyResponse(self.ready))])
        if world.coordinator != "none":
            await world.until(lambda: self.gate)
        if world.handshake is not None:
            await self.shake.send([self.codec.encode_ready(Ready())])
        world.spawn(self._read_input(), f"input {self.rank}")

    async def _read_input(self) -> None:
        while True:
            frames = await self.dealer.recv()
            self.inbox.append(self.codec.decode_engine_input(frames))
            self.world.look()

    async def _read_waves(self) -> None:
        while True:
            frames = await self.subscriber.recv()
            if frames == [b"READY"]:
                self.gate = True
            else:
                message = self.codec.decode_engine_input(frames)
                assert isinstance(message, StartDpWave)
                self.waves.append(message)
            self.world.look()

    def adds(self) -> list[str]:
        return [each.request.request_id for each in self.inbox if isinstance(each, Add)]

    def aborts(self) -> list[tuple[str, ...]]:
        return [each.request_ids for each in self.inbox if isinstance(each, Abort)]

    def utilities(self) -> list[UtilityCall]:
        return [each for each in self.inbox if isinstance(each, UtilityCall)]

    async def send(self, outputs: EngineCoreOutputs, aux: Sequence[bytes] = ()) -> None:
        await self.push.send(self.codec.encode_outputs(outputs, aux))

    async def output(
        self, request_id: str, *tokens: int, finish: FinishReason | None = None
    ) -> None:
        row = EngineCoreOutput(RequestId(request_id), tokens, finish_reason=finish)
        await self.send(EngineCoreOutputs(self.rank, (row,)))

    async def finish_only(self, *request_ids: str) -> None:
        ids = tuple(RequestId(each) for each in request_ids)
        await self.send(EngineCoreOutputs(self.rank, finished_requests=ids))

    async def reply(self, call_id: int, value: Any = None, failure: str | None = None) -> None:
        output = UtilityOutput(CallId(call_id), failure, value)
        await self.send(EngineCoreOutputs(self.rank, utility_output=output))

    async def notice(self, *, complete: int | None = None, start: int | None = None) -> None:
        outputs = EngineCoreOutputs(
            self.rank,
            wave_complete=None if complete is None else Wave(complete),
            start_wave=None if start is None else Wave(start),
        )
        await self.coordinator_push.send(self.codec.encode_outputs(outputs))


class World:
    """Loop, transport, engines, client, and everything that was observed."""

    def __init__(
        self,
        *,
        release: str = NEWEST,
        ranks: Sequence[int] = (0, 1),
        coordinator: str = "none",
        owner: bool = False,
        strategy: str = "fifo",
        seed: int = 0,
        components: Components | None = None,
        changes: dict[str, Any] | None = None,
        client: dict[str, Any] | None = None,
    ) -> None:
        self.profile = profile_for(release)
        self.codec = Codec(self.profile)
        self.coordinator = coordinator
        self.components = Components() if components is None else components
        self.client_settings = client or {}
        self.owner = owner or coordinator == "in-process"
        self.loop = SimLoop(make_strategy(strategy, seed, 0))
        self.plain = SimTransport(self.loop)
        self.gates: dict[str, asyncio.Future[None]] = {}
        self.faults = FaultTransport(self.plain, self._wait)
        self.input = self.plain.endpoint("input")
        self.output = self.plain.endpoint("output")
        self.handshake = self.plain.endpoint("handshake") if self.owner else None
        self.back_input = self.plain.endpoint("coordinator-input")
        self.back_output = self.plain.endpoint("coordinator-output")
        self.front = self.plain.endpoint("coordinator-front")
        self.events: list[Any] = []
        self.engines = [
            FakeEngine(
                self, rank, identity_from_rank(rank),
                ready_values(self.profile, data_parallel_rank=rank, **(changes or {})),
            )
            for rank in ranks
        ]  # fmt: skip
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    # --- running ---

    def run(self, story: Callable[[World], Coroutine[Any, Any, T]]) -> T:
        return self.loop.run(story(self))

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "test") -> asyncio.Task[T]:
        return self.loop.create_task(coroutine, name=name)

    def look(self) -> None:
        for condition, future in self._watchers:
            if not future.done() and condition():
                future.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        if not condition():
            future: asyncio.Future[None] = self.loop.create_future()
            self._watchers.append((condition, future))
            await future

    async def _wait(self, gate: str) -> None:
        await self.gate(gate)

    def gate(self, name: str) -> asyncio.Future[None]:
        if name not in self.gates:
            self.gates[name] = self.loop.create_future()
        mine: asyncio.Future[None] = self.loop.create_future()
        shared = self.gates[name]
        shared.add_done_callback(lambda _: mine.done() or mine.set_result(None))
        return mine

    def open(self, name: str) -> None:
        self.gate(name)
        self.gates[name].set_result(None)

    async def settled(self) -> None:
        await self.loop.settled()

    def observe(self, event: Any) -> None:
        self.events.append(event)
        self.look()

    def told(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    # --- the client ---

    def config(self) -> ClientConfig:
        count = len(self.engines)
        mode: HandshakeOwner | Bootstrapped
        if self.owner:
            mode = HandshakeOwner(
                self.handshake or "", self.input, self.output, count, count,
                InProcessCoordinator(self.back_input, self.back_output)
                if self.coordinator == "in-process" else None,
            )  # fmt: skip
        else:
            start = self.engines[0].rank
            mode = Bootstrapped(
                self.input, self.output, start, count, start + count,
                self.front if self.coordinator == "external" else None,
            )  # fmt: skip
        return ClientConfig(self.profile, mode, **self.client_settings)

    async def connect(self) -> EngineClient:
        if self.coordinator == "external":
            self.process = ExternalCoordinator(
                transport=self.plain, profile=self.profile, engine_count=len(self.engines),
                front_address=self.front, back_input_address=self.back_input,
                back_output_address=self.back_output, observer=self.observe,
            )  # fmt: skip
            await self.process.start()
        for engine in self.engines:
            self.spawn(engine.join(), f"join {engine.rank}")
        client = await EngineClient.connect(
            self.config(), self.faults, observer=self.observe, components=self.components
        )
        await self.settled()
        return client


def request(request_id: str, rank: int | None = None, **more: Any) -> EngineCoreRequest:
    return EngineCoreRequest(
        RequestId(request_id), prompt_token_ids=(1, 2), sampling_params={"max_tokens": 3},
        data_parallel_rank=rank, **more,
    )  # fmt: skip


@pytest.fixture
def make_world() -> type[World]:
    return World


@pytest.fixture
def make_request() -> Callable[..., EngineCoreRequest]:
    return request
