"""Startup: hostile frames in the place of an engine's HELLO or registration."""

from __future__ import annotations

from random import Random  # noqa: TID251

import msgpack

from client.errors import ClientError, Decode, Transport, UnexpectedHandshakeMessage
from client.protocol.codec import Codec
from client.protocol.profiles import RELEASES, Profile, profile_for
from tests.fuzz import seeds, valid
from tests.fuzz.families.worlds import World
from tests.fuzz.model import Finding, Input
from tests.fuzz.mutate import broken, reframed
from tests.fuzz.wire import read_slowly

ERROR_CHARS_MAX = 1_200
_NONE = "accepted"


async def outcome_of(world: World) -> ClientError | None:
    """Connect and leave again; the error if there is one."""
    try:
        client = await world.client()
    except ClientError as error:
        return error
    await client.shutdown()
    return None


def judge(
    error: ClientError | None, allowed: tuple[type[ClientError] | None, ...], world: World
) -> str:
    """Judge the end of a startup. Raises ``Finding``."""
    seen = None if error is None else type(error)
    if seen not in allowed:
        names = [each.__name__ if each else _NONE for each in allowed]
        raise Finding(f"startup ended with {error!r}, expected {' or '.join(names)}")
    if error is not None and len(str(error)) > ERROR_CHARS_MAX:
        raise Finding(f"the error of startup is {len(str(error))} characters long")
    return _NONE if error is None else f"refused {seen.__name__}"


class Handshake:
    """One engine's HELLO is replaced."""

    name = "handshake"

    def make(self, rng: Random) -> Input:
        """Draw one input."""
        tree = {
            "status": rng.choice(("HELLO", "HELLO", "READY", "BYE", None)),
            "local": rng.choice((True, False)), "headless": False,
            **({"extra": seeds.free(rng)} if rng.random() < 0.3 else {}),
        }  # fmt: skip
        frames = reframed([broken(tree, rng)], rng) or (b"",)
        return Input(rng.choice(RELEASES), rng.choice(("none", "none", "in-process")), frames)

    def check(self, given: Input) -> str:
        """Start up with it."""
        world = World(given.release, coordinator=given.door, owner=True)
        error = world.play(lambda world: self._story(world, given))
        return judge(error, (self._wanted(given),), world)

    @staticmethod
    async def _story(world: World, given: Input) -> ClientError | None:
        world.spawn(world.engine(0, hello=given.frames))
        world.spawn(world.engine(1))
        return await outcome_of(world)

    @staticmethod
    def _wanted(given: Input) -> type[ClientError] | None:
        if len(given.frames) != 1:
            return UnexpectedHandshakeMessage
        kind = valid.greeting(read_slowly(given.frames[0]))
        return {"Hello": None, None: Decode}.get(kind, UnexpectedHandshakeMessage)

    def close(self) -> None:
        """Nothing is held."""


class Registrations:
    """One engine's registration is replaced."""

    name = "registration"

    def make(self, rng: Random) -> Input:
        """Draw one input."""
        release = rng.choice(RELEASES)
        tree = seeds.ready(profile_for(release), rng)
        frames = reframed([broken(tree, rng)], rng) or (b"",)
        return Input(release, rng.choice(("owner", "bootstrapped")), frames)

    def check(self, given: Input) -> str:
        """Start up with it."""
        world = World(given.release, owner=given.door == "owner")
        error = world.play(lambda world: self._story(world, given))
        return judge(error, self._wanted(given), world)

    @staticmethod
    async def _story(world: World, given: Input) -> ClientError | None:
        world.spawn(world.engine(0, ready=given.frames))
        world.spawn(world.engine(1))
        return await outcome_of(world)

    @staticmethod
    def _wanted(given: Input) -> tuple[type[ClientError] | None, ...]:
        profile = profile_for(given.release)
        if len(given.frames) != 1:
            return (UnexpectedHandshakeMessage,)
        body = given.frames[0]
        if not body:
            return (None,) if profile.empty_registration_accepted else (UnexpectedHandshakeMessage,)
        found = read_slowly(body)
        if not valid.ready(found, profile):
            return (Decode,)
        values = found.value
        if profile.checks_lora_consistency and not _agrees(values):
            return (UnexpectedHandshakeMessage,)
        if type(values.get("dp_stats_address")) in (str, bytes) and given.door == "bootstrapped":
            return (None, Transport)  # somebody may be there, or it may be no address
        return (None,)

    def close(self) -> None:
        """Nothing is held."""


def _agrees(values: dict[object, object]) -> bool:
    """Whether an engine's words about LoRA fit together, and those of the other engine (none)."""
    return values.get("supports_lora") is False and values.get("max_loras") == 0


__all__ = ["Codec", "Handshake", "Profile", "Registrations", "msgpack"]
