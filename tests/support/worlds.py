"""The two worlds of a parity test: one body, run in simulation and over real sockets."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from client.protocol.transport import Transport
from client.transports.sockets import ZmqTransport
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy

SAFETY_S = 20.0
"""Real seconds after which a test on real sockets fails instead of hanging."""
TURN_S = 0.001
"""Real seconds between two looks at something that has no event of its own."""


@dataclass(frozen=True)
class World:
    """Where a body runs: ``kind`` is ``sim`` (with a strategy) or ``zmq`` (with a scheme)."""

    kind: str
    detail: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.kind}-{self.detail}" + (f"-{self.seed}" if self.detail == "random" else "")


class Stage:
    """What a body gets: a transport, and ways to wait that mean the same in both worlds."""

    def __init__(self, world: World, transport: Transport, first: Callable[[], Transport]) -> None:
        self.world = world
        self.transport = transport
        self._first = first
        self._more: list[Transport] = []

    def new_transport(self) -> Transport:
        """Open another transport that reaches the same addresses."""
        self._more.append(self._first())
        return self._more[-1]

    def close(self) -> None:
        """Close every transport."""
        for transport in [*self._more, self.transport]:
            transport.close()

    async def turn(self) -> None:
        """Let things go on: until nothing moves in simulation, for a moment over sockets."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, SimLoop):
            await loop.settled()
            return
        moment: asyncio.Future[None] = loop.create_future()
        loop.call_later(TURN_S, moment.set_result, None)
        await moment

    async def until(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Look again and again until ``look`` answers true (bounded by ``SAFETY_S``)."""
        while not await look():
            await self.turn()

    def start(self, coroutine: Any) -> asyncio.Task[Any]:
        """Run something beside the body."""
        return asyncio.get_running_loop().create_task(coroutine)


Body = Callable[[Stage], Awaitable[Any]]
SIM_WORLDS = (
    World("sim", "fifo"),
    *(World("sim", "random", seed) for seed in range(3)),
)
ZMQ_WORLDS = (World("zmq", "ipc"), World("zmq", "tcp"))
WORLDS = tuple(
    pytest.param(world, id=str(world), marks=[pytest.mark.zmq] if world.kind == "zmq" else [])
    for world in (*SIM_WORLDS, *ZMQ_WORLDS)
)


def run(world: World, body: Body) -> Any:
    """Run ``body`` in a world and close its transports, whatever happens."""
    if world.kind == "sim":
        loop = SimLoop(make_strategy(world.detail, world.seed, 0), step_limit=200_000)
        network = SimTransport(loop)
        stage = Stage(world, network, lambda: network.owned_by(""))
        return loop.run(_perform(stage, body))
    return asyncio.run(_really(world, body))


async def _perform(stage: Stage, body: Body) -> Any:
    try:
        return await body(stage)
    finally:
        stage.close()


async def _really(world: World, body: Body) -> Any:
    scheme: Any = world.detail
    make = functools.partial(ZmqTransport, scheme=scheme)
    async with asyncio.timeout(SAFETY_S):
        return await _perform(Stage(world, make(), make), body)


def in_all_worlds(body: Body) -> Callable[[World], None]:
    """Make a test of an async body: once for each world."""

    @pytest.mark.parametrize("world", WORLDS)
    def test(world: World) -> None:
        run(world, body)

    test.__name__ = getattr(body, "__name__", "test")
    test.__qualname__ = test.__name__
    test.__doc__ = body.__doc__
    test.__module__ = body.__module__
    return test
