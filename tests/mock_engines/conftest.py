"""A frontend small enough to read at a glance, and a cluster joined to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from client.protocol.codec import Codec
from client.protocol.ids import CallId, RequestId, Wave, identity_from_rank
from client.protocol.messages import (
    READY_GATE,
    EngineCoreRequest,
    Init,
    OutputKind,
    RequestBatch,
    StartDpWave,
    UtilityCall,
    UtilityReply,
)
from client.protocol.profiles import profile_for
from client.protocol.transport import Socket, SocketKind, Transport
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from mock_engines import events
from mock_engines.behaviours.model import Action, EngineSpec
from mock_engines.cluster import Cluster, JoinAddresses
from mock_engines.gates import Gates


class Fifo:
    """Always takes the entry that is ready longest."""

    def choose(self, n: int, labels: Any = None) -> int:
        return 0


@dataclass
class Peer:
    """A frontend that does what a test tells it. Its sockets are bound by ``open``."""

    transport: Transport
    codec: Codec
    coordinator: bool = False
    sockets: dict[str, Socket] = field(default_factory=dict)
    kinds: list[OutputKind] = field(default_factory=list)
    raw: list[list[bytes]] = field(default_factory=list)
    notices: list[list[bytes]] = field(default_factory=list)
    registrations: list[list[bytes]] = field(default_factory=list)
    startup: list[list[bytes]] = field(default_factory=list)
    subscriptions: list[list[bytes]] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    calls: int = 0

    async def open(self) -> None:
        wanted = {
            "handshake": SocketKind.ROUTER,
            "input": SocketKind.ROUTER,
            "output": SocketKind.PULL,
        }
        if self.coordinator:
            wanted |= {"coordinator_input": SocketKind.XPUB, "coordinator_output": SocketKind.PULL}
        for name, kind in wanted.items():
            address = self.transport.endpoint(name)
            self.sockets[name] = await self.transport.bind(kind, address)
        self.listen("output", self._output)
        self.listen("input", self.registrations.append)
        if self.coordinator:
            self.listen("coordinator_output", self.notices.append)
            self.listen("coordinator_input", self.subscriptions.append)

    def _output(self, frames: list[bytes]) -> None:
        self.raw.append(frames)
        try:
            self.kinds.append(self.codec.classify(frames))
        except Exception as error:  # noqa: BLE001  (scripted garbage: kept for the test)
            self.kinds.append(error)  # type: ignore[arg-type]

    def listen(self, name: str, take: Callable[[list[bytes]], None]) -> None:
        async def listen() -> None:
            while True:
                take(await self.sockets[name].recv())

        self.tasks.append(asyncio.get_running_loop().create_task(listen()))

    def address(self, name: str) -> str | None:
        return self.sockets[name].endpoint if name in self.sockets else None

    def bootstrapped(self) -> JoinAddresses:
        return JoinAddresses(
            input=self.address("input"),
            output=self.address("output"),
            coordinator_input=self.address("coordinator_input"),
            coordinator_output=self.address("coordinator_output"),
        )

    def answer_hellos(self) -> None:
        """Answer each HELLO with INIT; keep all that arrives."""
        init = Init(
            inputs=(self.sockets["input"].endpoint,),
            outputs=(self.sockets["output"].endpoint,),
            coordinator_input=self.address("coordinator_input"),
            coordinator_output=self.address("coordinator_output"),
        )

        async def answer() -> None:
            while True:
                identity, body = await self.sockets["handshake"].recv()
                self.startup.append([identity, body])
                if b"HELLO" in body:
                    await self.sockets["handshake"].send([identity, self.codec.encode_init(init)])

        self.tasks.append(asyncio.get_running_loop().create_task(answer()))

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait (real sockets) until a condition holds; looked at after every loop turn."""
        while not holds():
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.001, future.set_result, None)
            await future

    async def open_gate(self) -> None:
        await self.sockets["coordinator_input"].send([READY_GATE])

    async def send(self, rank: int, frames: Sequence[bytes]) -> None:
        await self.sockets["input"].send([identity_from_rank(rank), *frames])

    async def add(self, name: str, *, rank: int = 0, wave: int = 0, max_tokens: int = 3) -> None:
        request = EngineCoreRequest(
            request_id=RequestId(f"{name}-0123abcd"),
            prompt_token_ids=[1, 2],
            sampling_params={"max_tokens": max_tokens},
            external_req_id=name,
            current_wave=Wave(wave),
        )
        await self.send(rank, self.codec.encode_add(request))

    async def abort(self, *names: str, rank: int = 0) -> None:
        ids = [RequestId(f"{name}-0123abcd") for name in names]
        await self.send(rank, self.codec.encode_abort(ids))

    async def utility(self, method: str, *args: Any, rank: int = 0) -> int:
        self.calls += 1
        call = UtilityCall(0, CallId(self.calls), method, list(args))
        await self.send(rank, self.codec.encode_utility(call))
        return self.calls

    async def start_wave(self, wave: int, exclude: int | None = None) -> None:
        message = StartDpWave(Wave(wave), exclude)
        await self.sockets["coordinator_input"].send(self.codec.encode_start_wave(message))

    def rows(self, name: str | None = None) -> list[tuple[str, tuple[int, ...], str | None]]:
        """Output rows so far: caller's id, tokens, finish reason."""
        found = []
        for kind in self.kinds:
            if isinstance(kind, RequestBatch):
                for row in kind.outputs:
                    caller = row.request_id.removesuffix("-0123abcd")
                    reason = None if row.finish_reason is None else row.finish_reason.name.lower()
                    if name in (None, caller):
                        found.append((caller, tuple(row.new_token_ids), reason))
        return found

    def replies(self) -> list[tuple[int, str | None, Any]]:
        """Utility replies so far: call id, failure, value."""
        return [
            (kind.output.call_id, kind.output.failure_message, kind.output.value)
            for kind in self.kinds
            if isinstance(kind, UtilityReply)
        ]


def actions(*items: dict[str, Any]) -> list[Action]:
    return [Action.model_validate(item) for item in items]


def spec(**parts: Any) -> EngineSpec:
    return EngineSpec.model_validate(parts)


@dataclass
class Run:
    """One cluster and its peer."""

    peer: Peer
    cluster: Cluster
    gates: Gates
    events: list[events.MockEvent]
    settle: Callable[[], Awaitable[None]]

    @staticmethod
    def actions(*items: dict[str, Any]) -> list[Action]:
        return actions(*items)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def seen(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


Story = Callable[[Run], Awaitable[None]]


@pytest.fixture(name="spec")
def spec_fixture() -> Callable[..., EngineSpec]:
    return spec


@pytest.fixture(name="actions")
def actions_fixture() -> Callable[..., list[Action]]:
    return actions


@pytest.fixture
def make_peer() -> type[Peer]:
    return Peer


@pytest.fixture
def make_run() -> type[Run]:
    return Run


@pytest.fixture
def play() -> Callable[..., Run]:
    """Play a story in simulation: ``play(story, specs=[...], ...)``."""

    def run(
        story: Story,
        *,
        specs: Sequence[dict[str, Any]] = (),
        ranks: Sequence[int] = (0,),
        release: str = "0.33.0",
        coordinator: bool = False,
        waves: str = "auto",
        join: bool = True,
        handshake: bool | str = False,  # a text: the test answers each HELLO by hand
        chooser: Any = None,
        real_peer: bool = False,
        **more: Any,
    ) -> Run:
        loop = SimLoop(chooser or Fifo())
        transport = SimTransport(loop)
        made: list[Run] = []

        async def main() -> None:
            profile = profile_for(release)
            peer = Peer(transport, Codec(profile), coordinator)
            await peer.open()
            seen: list[events.MockEvent] = []
            gates = Gates()
            address = peer.address("handshake")
            cluster = Cluster(
                transport,
                profile,
                ranks,
                [spec(**parts) for parts in specs],
                JoinAddresses(handshake=address) if handshake else peer.bootstrapped(),
                waves=waves,  # type: ignore[arg-type]
                gates=gates,
                observer=seen.append,
                real_peer=real_peer,
                **more,
            )
            made.append(Run(peer, cluster, gates, seen, loop.settled))
            if handshake is True:
                peer.answer_hellos()
            elif handshake:
                peer.listen("handshake", peer.startup.append)
            cluster.start()
            if join:
                await loop.settled()
                if coordinator:
                    await peer.open_gate()
                await cluster.joined()
                await loop.settled()
            await story(made[0])
            await cluster.stop()
            for task in peer.tasks:
                task.cancel()

        loop.run(main())
        assert loop.orphans == ()
        transport.close()
        return made[0]

    return run
