"""A client in the simulation with two engines that say exactly what a family gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from client.config import Bootstrapped, ClientConfig, HandshakeOwner, InProcessCoordinator
from client.coordinator_process import ExternalCoordinator
from client.engine_client import EngineClient
from client.errors import ClientError
from client.output_stream import OutputStream
from client.protocol.codec import Codec
from client.protocol.ids import RequestId, identity_from_rank
from client.protocol.messages import (
    SUBSCRIBE_ALL,
    EngineCoreRequest,
    Hello,
    Ready,
    ReadyResponse,
)
from client.protocol.profiles import profile_for
from client.protocol.transport import Socket, SocketKind, SocketOptions
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy
from tests.fuzz import seeds
from tests.fuzz.model import Finding

T = TypeVar("T")
READY_TIMEOUT_S = 30.0
SHOWN_CHARS_MAX = 1_500
"""Longest text of an error that a caller is shown for a message of any size."""
BAD = b"\xc1"
"""A byte that no msgpack value begins with."""


class World:
    """One loop, one network, one client."""

    def __init__(self, release: str, *, coordinator: str = "none", owner: bool = False) -> None:
        self.profile = profile_for(release)
        self.codec = Codec(self.profile)
        self.loop = SimLoop(make_strategy("fifo", 0, 0))
        self.plain = SimTransport(self.loop)
        self.coordinator = coordinator
        self.owner = owner or coordinator == "in-process"
        self.input = self.plain.endpoint("input")
        self.output = self.plain.endpoint("output")
        self.shake = self.plain.endpoint("handshake")
        self.back_input = self.plain.endpoint("coordinator-input")
        self.back_output = self.plain.endpoint("coordinator-output")
        self.front = self.plain.endpoint("coordinator-front")
        self.push: list[Socket] = []
        self.back: list[Socket] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def play(self, story: Callable[[World], Awaitable[T]]) -> T:
        """Play a story; what is left open afterwards is a finding."""

        async def whole() -> T:
            try:
                return await story(self)
            finally:
                for task in self.tasks:
                    task.cancel()

        try:
            return self.loop.run(whole())
        finally:
            self.plain.close()

    def spawn(self, work: Any) -> None:
        """Run beside the story, until its end."""
        self.tasks.append(self.loop.create_task(work, name="engine"))

    def config(self) -> ClientConfig:
        """The client's settings."""
        mode: HandshakeOwner | Bootstrapped
        if self.owner:
            coordinator = (
                InProcessCoordinator(self.back_input, self.back_output)
                if self.coordinator == "in-process"
                else None
            )
            mode = HandshakeOwner(self.shake, self.input, self.output, 2, 2, coordinator)
        else:
            address = self.front if self.coordinator == "external" else None
            mode = Bootstrapped(self.input, self.output, 0, 2, 2, address)
        return ClientConfig(self.profile, mode, ready_timeout_s=READY_TIMEOUT_S)

    def client(self) -> Awaitable[EngineClient]:
        """Connect the client."""
        return EngineClient.connect(self.config(), self.plain, observer=lambda _event: None)

    async def dealer(self, address: str, rank: int) -> Socket:
        """A socket with an engine's identity."""
        options = SocketOptions(identity=identity_from_rank(rank))
        return await self.plain.connect(SocketKind.DEALER, address, options)

    async def engine(
        self,
        rank: int,
        *,
        hello: Sequence[bytes] | None = None,
        ready: Sequence[bytes] | None = None,
    ) -> None:
        """Join as an engine does, with other frames for HELLO or for the registration."""
        if self.owner:
            shake = await self.dealer(self.shake, rank)
            await shake.send([self.codec.encode_hello(Hello())] if hello is None else list(hello))
            await shake.recv()
        dealer = await self.dealer(self.input, rank)
        push = await self.plain.connect(SocketKind.PUSH, self.output)
        self.push.append(push)
        gate = None
        if self.coordinator == "in-process":
            gate = await self.plain.connect(SocketKind.XSUB, self.back_input)
            self.back.append(await self.plain.connect(SocketKind.PUSH, self.back_output))
            await gate.send([SUBSCRIBE_ALL])
        await dealer.send([self.good_ready(rank)] if ready is None else list(ready))
        if gate is not None:
            await gate.recv()
        if self.owner:
            await shake.send([self.codec.encode_ready(Ready())])
        while True:
            await dealer.recv()

    def good_ready(self, rank: int) -> bytes:
        """A registration that every client takes."""
        values: dict[str, Any] = dict.fromkeys(self.profile.ready_keys, 7)
        values |= {
            "dtype": "bfloat16", "vllm_version": self.profile.release, "instance_id": "i",
            "supports_lora": False, "max_loras": 0, "enable_sleep_mode": True,
            "supports_draft_weight_updates": False, "dp_stats_address": None,
            "kv_cache_max_concurrency": 1.5, "kv_events_config": None,
            "weight_transfer_backend": None, "coordinator_input_address": None,
            "coordinator_output_address": None, "data_parallel_rank": rank,
        }  # fmt: skip
        return self.codec.encode_ready_response(
            ReadyResponse({key: values[key] for key in self.profile.ready_keys})
        )

    async def process(self) -> ExternalCoordinator:
        """An external coordinator of ours."""
        process = ExternalCoordinator(
            transport=self.plain, profile=self.profile, engine_count=2, front_address=self.front,
            back_input_address=self.back_input, back_output_address=self.back_output,
            observer=lambda _event: None,
        )  # fmt: skip
        await process.start()
        return process


async def judged_client(
    world: World,
    client: EngineClient,
    wanted: type[ClientError] | None,
    send: Callable[[], Awaitable[None]],
    again: Socket,
) -> str:
    """Send what a family has, while a call is open, and judge what became of the client.

    Args:
        world: where the client lives.
        client: connected and healthy.
        wanted: class of the error that must be its health afterwards; ``None``: it stays healthy.
        send: sends the input.
        again: takes a second message, which is bad: the first error must stay.

    Raises:
        Finding: another health, another class, an error that was replaced, or a call left open.
    """
    stream = await client.call(request())
    await send()
    await world.loop.settled()
    error = client.health_error
    if (None if error is None else type(error)) is not wanted:
        raise Finding(f"health is {error!r}, expected {wanted.__name__ if wanted else 'healthy'}")
    await again.send([BAD])
    await world.loop.settled()
    if error is not None and client.health_error is not error:
        raise Finding(f"the first health error {error!r} was replaced by {client.health_error!r}")
    if client.health_error is None:
        raise Finding("a message that is no msgpack left the client healthy")
    if error is not None and len(str(error)) > SHOWN_CHARS_MAX:
        raise Finding(f"the health error is {len(str(error))} characters long")
    end = await ended(stream)
    if end is not None and type(end) is not type(client.health_error) and wanted is not None:
        raise Finding(f"the open call ended with {end!r}, health is {client.health_error!r}")
    await client.shutdown()
    await world.loop.settled()
    if client.in_flight() or client.pending_utility_calls():
        raise Finding("a registry is not empty after the end")
    return "healthy" if error is None else f"failed {type(error).__name__}"


async def ended(stream: OutputStream) -> ClientError | None:
    """Read a call to its end; its error, if it has one."""
    try:
        async for _ in stream:
            pass
    except ClientError as error:
        return error
    return None


def request() -> EngineCoreRequest:
    """A request that nobody answers."""
    return EngineCoreRequest(
        RequestId("r"), prompt_token_ids=(1,), sampling_params={"max_tokens": 1}
    )


__all__ = ["BAD", "World", "ended", "judged_client", "request", "seeds"]
