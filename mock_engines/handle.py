"""One engine as the cluster sees it, wherever it lives; and what it is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from client.protocol.profiles import Profile
from mock_engines import events
from mock_engines.behaviours.model import Action, Pace
from mock_engines.gates import Gates
from mock_engines.join import JoinAddresses
from mock_engines.lockstep.elastic import Elastic
from mock_engines.parts import EngineParts
from mock_engines.specs import EngineScript
from mock_engines.step_group import StepGroup


class WaveLink(Protocol):
    """How an engine tells the shared wave model what happens to it (``waves: auto``)."""

    def wave(self, rank: int) -> int:
        """The rank's current wave."""

    def enter(self, rank: int) -> None:
        """The engine joined a coordinator."""

    def leave(self, rank: int) -> None:
        """The engine died."""

    def added(self, rank: int, *, wave: int, paused: bool) -> None:
        """ADD arrived; told before the request counts as work."""

    def start_dp_wave(self, rank: int, *, wave: int, exclude: int | None) -> None:
        """START_DP_WAVE took effect."""

    def work(self, rank: int, *, unfinished: bool) -> None:
        """The engine has unfinished requests now, or none."""

    def stall(self, rank: int) -> None:
        """The engine stopped for a while."""

    def resume(self, rank: int) -> None:
        """The engine goes on."""


class ElasticLink(Protocol):
    """Where engines that do not step together meet for another size."""

    def told(self, rank: int, elastic: Elastic) -> None:
        """The engine was told of a change, or to go on with it."""

    def arrived(self, rank: int) -> None:
        """An engine that was started for a new size has joined."""


class Lockstep(msgspec.Struct, frozen=True):
    """How engines step together (``waves: lockstep``).

    Attributes:
        group: where they meet.
        pace: how many requests and tokens a step has, and how long it takes.
        parts: classes of a rank and of its scheduler.
    """

    group: StepGroup
    pace: Pace
    parts: EngineParts


class EngineSetup(msgspec.Struct, frozen=True):
    """Everything that one engine needs.

    Attributes:
        rank: global rank.
        data_parallel_size: what MoE engines report.
        real_peer: the frontend is a black box on real sockets.
        waves: the shared wave model, ``None`` = notices by script only.
        on_failure: told of an error in one of the engine's own tasks.
        lockstep: its peers, if it steps with others; ``waves`` is ``None`` then.
        joins: it is started for a group of this size, while the deployment runs.
        elastic: told of changes of the number of engines, where none step together.
    """

    rank: int
    profile: Profile
    script: EngineScript
    addresses: JoinAddresses
    data_parallel_size: int
    real_peer: bool
    gates: Gates
    observer: events.Observer
    waves: WaveLink | None
    on_failure: Callable[[BaseException], None]
    lockstep: Lockstep | None = None
    joins: int | None = None
    elastic: ElasticLink | None = None


class EngineHandle(Protocol):
    """An engine in this process or in a child."""

    def start(self) -> None:
        """Begin to join, in the background."""

    @property
    def has_joined(self) -> bool:
        """Whether startup is over and the engine lives."""

    @property
    def busy(self) -> bool:
        """Whether an action is under way that waits for nothing scripted."""

    @property
    def stalled(self) -> bool:
        """Whether it reads and sends nothing, until a gate opens."""

    async def joined(self) -> None:
        """Return once startup is over."""

    async def act(self, actions: Sequence[Action], *, background: bool) -> None:
        """Carry out actions outside any rule. One that stalls the engine is not waited for."""

    async def idle(self) -> None:
        """Return once every action has ended or waits for a gate, a state, or for ever.

        A stalled engine is not waited for.
        """

    def state(self) -> Mapping[str, Any]:
        """The engine's state as plain values."""

    async def notice(self, notice: str, wave: int) -> None:
        """Send a wave notice that the wave model asks for; a stalled engine does so later."""

    def waves_moved(self) -> None:
        """The wave model changed; a child process is told."""

    async def die(self, how: str) -> None:
        """Die: ``sentinel``, ``close`` or ``vanish``; a stalled one can only vanish."""

    async def elastic_notice(self, notice: str) -> None:
        """Tell the frontend how far a change of the number of engines is."""

    async def remove(self) -> None:
        """End because there are to be fewer engines; nobody misses it."""

    async def rejoin(self) -> None:
        """Come back with the same identity; returns once registered."""

    async def stop(self) -> None:
        """End it and release everything. Idempotent."""


ProcessFactory = Callable[[EngineSetup], EngineHandle]
"""Makes an engine that runs as a child process."""
