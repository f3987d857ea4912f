"""Paths of a connected client: outputs, its in-process coordinator, an external one's publishes."""

from __future__ import annotations

from random import Random  # noqa: TID251
from typing import Any

from client.errors import (
    ClientError,
    Decode,
    EngineCoreDead,
    ExtValueDecode,
    UnexpectedCoordinatorOutput,
    UnexpectedDispatcherOutput,
)
from client.protocol.messages import SCALE_MESSAGE
from client.protocol.profiles import RELEASES, profile_for
from client.protocol.transport import SocketKind
from tests.fuzz import seeds, valid
from tests.fuzz.families.worlds import World, judged_client
from tests.fuzz.model import Finding, Input
from tests.fuzz.mutate import broken, reframed
from tests.fuzz.wire import read_slowly

NOTES_CHARS_MAX = 2_000


def _refusal(given: Input, frames: tuple[bytes, ...]) -> type[ClientError]:
    """Which of the two decode errors: the codec says, the family ``outputs`` checks that."""
    from client.protocol.codec import DecodeError, ExtValueDecodeError
    from tests.fuzz.families.decoders import CODECS

    try:
        CODECS[given.release].classify(list(frames))
    except ExtValueDecodeError:
        return ExtValueDecode
    except DecodeError:
        return Decode
    raise Finding("the codec took what the rules refuse")


class Coordinator:
    """Messages to a client on its coordinator's path, or on the main one."""

    name = "coordinator"

    def make(self, rng: Random) -> Input:
        """Draw one input."""
        release = rng.choice(RELEASES)
        door = rng.choice(("back", "back", "main"))
        kinds = ("complete", "start", "complete", "start", "stats", "rows", "utility", "mixed")
        aux: list[bytes] = []
        tree = seeds.outputs(profile_for(release), rng, aux, kind=rng.choice(kinds))
        body = broken(tree, rng) if rng.random() < 0.98 else valid.SENTINEL
        return Input(release, door, reframed([body, *aux], rng) or (b"",))

    def check(self, given: Input) -> str:
        """Send it to a client with an open call."""
        world = World(given.release, coordinator="in-process")
        return world.play(lambda world: self._story(world, given))

    async def _story(self, world: World, given: Input) -> str:
        world.spawn(world.engine(0))
        world.spawn(world.engine(1))
        client = await world.client()
        socket = (world.back if given.door == "back" else world.push)[0]
        wanted = self._wanted(given)
        return await judged_client(
            world, client, wanted, lambda: socket.send(list(given.frames)), socket
        )

    @staticmethod
    def _wanted(given: Input) -> type[ClientError] | None:
        frames, back = given.frames, given.door == "back"
        profile = profile_for(given.release)
        if frames[0] == valid.SENTINEL:
            return EngineCoreDead
        found = read_slowly(frames[0])
        kind = valid.kind_of(found, frames, profile)
        if kind is None:
            return _refusal(given, frames)
        if not back:
            good = kind in ("RequestBatch", "UtilityReply")
            return None if good else UnexpectedDispatcherOutput
        if kind == "RequestBatch":
            row: list[Any] = [*found.value, *[None] * 9]
            alone = not row[1] and row[5] is None
            return None if alone else UnexpectedCoordinatorOutput
        return None if kind in ("WaveComplete", "StartWave") else UnexpectedCoordinatorOutput

    def close(self) -> None:
        """Nothing is held."""


class Publishes:
    """What an external coordinator sends to clients, and what it is sent itself."""

    name = "publishes"

    def make(self, rng: Random) -> Input:
        """Draw one input."""
        release = rng.choice(RELEASES)
        door = rng.choice(("publish", "publish", "front", "back"))
        aux: list[bytes] = []
        tree: Any = [rng.choice((None, [[1, 2], [0, 0, 0.5]])), seeds.u32(rng), rng.random() < 0.5]
        if door == "front":
            tree = rng.choice(([0, seeds.u32(rng)], [SCALE_MESSAGE, rng.choice((0, 1, 3))]))
        elif door == "back":
            kind = rng.choice(("complete", "start", "stats", "stats", "rows", "utility", "mixed"))
            tree = seeds.outputs(profile_for(release), rng, aux, kind=kind)
        return Input(release, door, reframed([broken(tree, rng), *aux], rng) or (b"",))

    def check(self, given: Input) -> str:
        """Publish it to a client, or send it to our coordinator process."""
        coordinator = "external" if given.door == "publish" else "none"
        world = World(given.release, coordinator=coordinator)
        return world.play(lambda world: self._story(world, given))

    async def _story(self, world: World, given: Input) -> str:
        if given.door != "publish":
            return await self._process(world, given)
        front = await world.plain.bind(SocketKind.XPUB, world.front)
        world.spawn(world.engine(0))
        world.spawn(world.engine(1))
        client = await world.client()
        await world.loop.settled()
        return await judged_client(
            world, client, self._wanted(given), lambda: front.send(list(given.frames)), front
        )

    @staticmethod
    def _wanted(given: Input) -> type[ClientError] | None:
        if len(given.frames) != 1:
            return UnexpectedCoordinatorOutput
        return None if valid.publish(read_slowly(given.frames[0])) else Decode

    async def _process(self, world: World, given: Input) -> str:
        """The process goes on, or it ends and says why: nothing gets out of it."""
        process = await world.process()
        gate = [await world.plain.connect(SocketKind.XSUB, world.back_input) for _ in range(2)]
        for socket in gate:
            await socket.send([b"\x01"])
        if given.door == "back":
            hostile = await world.plain.connect(SocketKind.PUSH, world.back_output)
        else:
            hostile = await world.plain.connect(SocketKind.XSUB, world.front)
        await world.loop.settled()
        await hostile.send(list(given.frames))
        await world.loop.settled()
        died = process.died
        if any(len(note) > NOTES_CHARS_MAX for note in [*process.notes, died or ""]):
            raise Finding("a note of the coordinator is too long")
        await process.stop()
        return "process goes on" if died is None else f"process ended: {died.split(':')[0]}"

    def close(self) -> None:
        """Nothing is held."""
