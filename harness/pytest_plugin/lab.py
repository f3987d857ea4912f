"""What the fixtures give to tests in Python: a loop, mock engines, the reference client.

A *story* is an ``async def`` without arguments. ``simulate`` runs it in the simulated loop, once or
in many orders of events, or over real sockets. Inside it ``cluster`` and ``client`` make engines
and a client in the world of the story; both are stopped when it ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from client.aio import DeadlineExceeded, with_deadline
from client.components import Components
from client.engine_client import EngineClient
from client.protocol.profiles import NEWEST, profile_for
from harness.fence import Fence
from harness.mutants import find_mutant
from harness.play import FenceFilter
from harness.pytest_plugin.engines import Engines
from harness.pytest_plugin.schedules import Schedules
from harness.scenario.model import Topology
from harness.targets.client_frontend import ClientFrontend
from harness.trace.events import Event
from harness.trace.recorder import Recorder
from harness.worlds import World, ZmqWorld
from mock_engines.behaviours.model import EngineSpec
from mock_engines.cluster import JoinAddresses
from mock_engines.gates import Gates
from mock_engines.parts import EngineParts

T = TypeVar("T")
Story = Callable[[], Awaitable[T]]
SOCKETS_LIMIT_S = 60.0
"""Real seconds after which a story over real sockets fails instead of hanging."""


class MakeCluster(Protocol):
    """The fixture ``wavecheck_cluster``; see ``Lab.cluster``."""

    async def __call__(
        self,
        engines: int = 2,
        behaviours: Sequence[Mapping[str, Any]] = (),
        *,
        profile: str = NEWEST,
        mutant: str | None = None,
        join: JoinAddresses | None = None,
        **topology: Any,
    ) -> Engines:
        """Start mock engines."""


class MakeClient(Protocol):
    """The fixture ``wavecheck_client``; see ``Lab.client``."""

    async def __call__(self, cluster: Engines) -> EngineClient:
        """Connect the reference client."""


class Lab:
    """The fixture ``simulate``: call it with a story. Serves one test."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._engines: list[Engines] = []

    def __call__(
        self,
        story: Story[T],
        *,
        target: str = "sim",
        schedules: int = 1,
        strategy: str | None = None,
        seed: int = 0,
        tape: str | None = None,
    ) -> T:
        """Run a story to its end, in one order of events or in many, each from the beginning.

        Args:
            story: an ``async def`` without arguments. Whatever it raises ends all.
            target: ``sim``: virtual time, in-memory sockets; ``zmq``: stock asyncio and real ones.
            schedules: how many orders are tried, on ``sim``.
            strategy: who picks them, as in ``wavecheck run --strategy``; default: ``fifo`` for
                one, else ``auto``.
            seed: of the strategy; the same one picks the same orders anywhere.
            tape: plays one order again: the text that a failure shows.

        Returns:
            What the story returned; of the last order that was tried.

        Raises:
            ValueError: arguments that do not go together.
            Deadlock: on ``sim``: nothing can happen any more, and the story is not over.
        """
        __tracebackhide__ = True
        if self._world is not None:
            msg = "a story is running already; await the other one in it"
            raise RuntimeError(msg)
        if target == "zmq":
            if schedules != 1 or strategy is not None or tape is not None:
                msg = "nobody can choose the order on real sockets: no schedules, strategy or tape"
                raise ValueError(msg)
            return self._run(ZmqWorld("ipc"), story=story, limit_s=SOCKETS_LIMIT_S)
        if target != "sim":
            msg = f"there is no target {target!r} for a story, only 'sim' and 'zmq'"
            raise ValueError(msg)
        orders = Schedules(schedules, strategy, seed, tape)
        return orders.play(partial(self._run, story=story, limit_s=None))

    def _run(self, world: World, *, story: Story[T], limit_s: float | None) -> T:
        __tracebackhide__ = True

        async def main() -> T:
            __tracebackhide__ = True
            try:
                world.steps_begin()
                if limit_s is None:
                    value = await story()
                else:
                    value = await _limited(story, limit_s)
            except BaseException as error:
                await self._close_behind(error)
                raise
            world.steps_end()
            await self._close()
            return value

        self._world = world
        try:
            return world.run(main)
        finally:
            self._world = None
            self._engines.clear()

    # --- inside a story ---------------------------------------------------------------------

    async def cluster(
        self,
        engines: int = 2,
        behaviours: Sequence[Mapping[str, Any]] = (),
        *,
        profile: str = NEWEST,
        mutant: str | None = None,
        join: JoinAddresses | None = None,
        **topology: Any,
    ) -> Engines:
        """Start mock engines; they join whoever connects to them.

        Args:
            engines: how many.
            behaviours: as under ``engines`` in a scenario file.
            profile: the release whose protocol they, and our client, speak.
            mutant: id of a known bug for our client, or for the engines.
            join: where they join a frontend of your own, instead of our client.
            topology: further keys of ``topology`` in a scenario file: ``coordinator`` and so on.

        Raises:
            ValueError: some of that is not valid.
            RuntimeError: no story is running.
        """
        world = self._running()
        shape = Topology.model_validate({"engines": engines, **topology})
        if shape.frontends != 1:
            msg = "a story has one frontend: make a second cluster, or write a scenario"
            raise ValueError(msg)
        components, parts = Components(), EngineParts()
        if mutant is not None:
            components = find_mutant(mutant).components(components)
            parts = find_mutant(mutant).engine_parts(parts)
        trace, gates, spoken = Recorder(), Gates(), profile_for(profile)

        def emit(event: Event) -> None:
            trace.emit(event)

        frontend = None
        if join is None:
            frontend = ClientFrontend(
                topology=shape,
                profile=spoken,
                transport=world.transport,
                components=components,
                observer=FenceFilter(emit),
                emit=emit,
                wait_gate=gates.wait,
            )
            await frontend.prepare()
        made = Engines(
            world.transport,
            spoken if shape.engine_release is None else profile_for(shape.engine_release),
            [*shape.rank_list, *shape.later_list],
            [EngineSpec.model_validate(spec) for spec in behaviours],
            frontend.addresses if join is None and frontend is not None else _given(join),
            waves=shape.waves,
            pace=shape.lockstep,
            gates=gates,
            observer=emit,
            parts=parts,
            later=shape.later_list,
            elastic=bool(shape.later_list),
        )
        made.topology, made.trace, made.frontend = shape, trace, frontend
        made.settle = made.idle if frontend is None else _fence(world, frontend, made)
        self._engines.append(made)
        made.start()
        return made

    async def client(self, cluster: Engines) -> EngineClient:
        """Connect the reference client to engines; returns once all have joined.

        Raises:
            ClientError: it cannot be connected.
            ValueError: these engines join somebody else.
            RuntimeError: no story is running.
        """
        self._running()
        frontend = cluster.frontend
        if frontend is None:
            msg = "these engines join a frontend of yours (join=…), not our client"
            raise ValueError(msg)
        await frontend.start()
        await cluster.joined()
        return frontend.client

    def _running(self) -> World:
        if self._world is None:
            msg = "no story is running: call it inside the `async def` that `simulate` gets"
            raise RuntimeError(msg)
        return self._world

    # --- the end of a story -----------------------------------------------------------------

    async def _close(self) -> None:
        """Stop every client, then every cluster, whatever one of them raises."""
        errors: list[Exception] = []
        stops = [each.frontend.stop for each in self._engines if each.frontend is not None]
        stops += [each.stop for each in self._engines]
        for stop in stops:
            try:
                await stop()
            except Exception as error:  # noqa: BLE001 - the others have to be stopped, too
                errors.append(error)
        for each in self._engines:
            each.trace.close()
            each.let_go()
        if errors:
            raise errors[0]

    async def _close_behind(self, error: BaseException) -> None:
        """The same, behind an error of the story, which counts for more."""
        try:
            await self._close()
        except Exception as further:  # noqa: BLE001 - it is told with the first
            error.add_note(f"when engines and client were stopped: {further!r}")


def _given(join: JoinAddresses | None) -> JoinAddresses:
    assert join is not None
    return join


def _fence(world: World, frontend: ClientFrontend, engines: Engines) -> Fence:
    return Fence(
        world=world, frontend=frontend, cluster=engines, trace=engines.trace, black_box=False
    )


async def _limited(story: Story[T], seconds: float) -> T:
    """Run a story within a limit.

    Raises:
        TimeoutError: it did not end in time.
    """
    try:
        return await with_deadline(_as_coroutine(story), seconds)
    except DeadlineExceeded as error:
        msg = f"the story did not end within {seconds:g} s: something that it waits for never came"
        raise TimeoutError(msg) from error


async def _as_coroutine(story: Story[T]) -> T:
    return await story()
