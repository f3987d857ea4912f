"""n mock engines that join one frontend together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from client.protocol.profiles import Profile
from client.protocol.transport import Transport
from mock_engines import aio, events
from mock_engines.behaviours.model import Action, EngineSpec, Pace
from mock_engines.behaviours.registry import action_problems, spec_problems
from mock_engines.elastic import Switchboard
from mock_engines.endpoint import Endpoint
from mock_engines.gates import Gates
from mock_engines.handle import EngineHandle, EngineSetup, Lockstep, ProcessFactory
from mock_engines.join import JoinAddresses
from mock_engines.outlets import ScriptError
from mock_engines.parts import EngineParts
from mock_engines.specs import check_ranks, script_for
from mock_engines.step_group import StepGroup
from mock_engines.wave_link import ClusterWaves

__all__ = ["Cluster", "JoinAddresses", "ScriptError"]


class Cluster:
    """The engines of one run.

    Args:
        transport: of engines that run in this process; not closed here.
        profile: release whose shapes and reply types they speak.
        ranks: global ranks, in index order.
        specs: behaviours; entries name global ranks.
        addresses: where to join.
        waves: ``auto`` completes and starts waves as the release does, ``script`` never, and with
            ``lockstep`` each engine runs the loop of its release and meets its peers in it; these
            all live in this process.
        pace: of engines that step together.
        gates: those of the run.
        observer: is told every event.
        real_peer: the frontend is a black box on real sockets.
        process_factory: makes engines that run as child processes; ``None`` (simulation)
            keeps all in this process, where to vanish is to close the sockets.
        children: ranks that run as child processes unless their entry says otherwise, besides
            those with a rule that lets them vanish or stall.
        data_parallel_size: what MoE engines report; default: the number of ranks.
        on_failure: told at once of an error in an engine's own task; it is also raised by the
            next ``joined``, ``idle`` or ``stop``.
        transport_of: gives an engine in this process, by its rank, a transport of its own in
            place of ``transport``, such as one that records.
        parts: what the engines are built from.
        later: ranks of ``ranks`` that are not there from the start; ``grow`` starts them.
        elastic: the number of engines may change; then all live in this process.

    Raises:
        ValueError: ranks beyond two bytes, double or unknown ones, or actions that fit no
            message of their rule.
    """

    def __init__(
        self,
        transport: Transport,
        profile: Profile,
        ranks: Sequence[int],
        specs: Sequence[EngineSpec],
        addresses: JoinAddresses,
        *,
        waves: Literal["auto", "script", "lockstep"] = "auto",
        pace: Pace = Pace(),  # noqa: B008  (frozen)
        gates: Gates | None = None,
        observer: events.Observer = events.ignore,
        real_peer: bool = False,
        process_factory: ProcessFactory | None = None,
        children: Collection[int] = (),
        data_parallel_size: int | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        transport_of: Callable[[int], Transport] | None = None,
        parts: EngineParts = EngineParts(),  # noqa: B008  (frozen)
        later: Sequence[int] = (),
        elastic: bool = False,
    ) -> None:
        check_ranks(ranks, specs)
        addresses.check()
        if problems := spec_problems(specs):
            raise ValueError("; ".join(problems))
        self.gates = gates if gates is not None else Gates()
        self.ranks = tuple(ranks)
        self._observer = observer
        self._handles: dict[int, EngineHandle] = {}
        self._failures: list[BaseException] = []
        self._unraised: list[BaseException] = []
        self._on_failure = on_failure
        self._waves: ClusterWaves | None = None
        if waves == "auto":
            self._waves = ClusterWaves(parts.waves(profile), self._handles, self._failed)
        first = [rank for rank in self.ranks if rank not in later]
        self._group: StepGroup | None = None
        self._elastic: Switchboard | None = None
        lockstep: Lockstep | None = None
        if waves == "lockstep":
            # Ranks meet in memory, so none of them can be a process of its own.
            process_factory = None
            self._group = StepGroup(first, observer, parts.collectives)
            lockstep = Lockstep(self._group, pace, parts)
        elif elastic:
            process_factory = None
            self._elastic = Switchboard(first, self._handles, self._waves, observer, self._failed)
        self._awaited = tuple(r for r in first if not script_for(r, specs).join.never)
        self._make_endpoint = partial(_endpoint, transport, transport_of)
        for rank in self.ranks:
            setup = EngineSetup(
                rank=rank,
                profile=profile,
                script=script_for(rank, specs),
                addresses=addresses,
                data_parallel_size=data_parallel_size or len(first),
                real_peer=real_peer,
                gates=self.gates,
                observer=observer,
                waves=self._waves,
                on_failure=self._failed,
                lockstep=lockstep,
                elastic=self._elastic,
            )
            wants_process = setup.script.process
            if wants_process is None:
                wants_process = setup.script.needs_process or rank in children
            if process_factory is not None and wants_process:
                self._handles[rank] = process_factory(setup)
            else:
                self._handles[rank] = self._make_endpoint(setup)
        self._unstarted = dict.fromkeys(later)

    @property
    def failures(self) -> tuple[BaseException, ...]:
        """Errors in the engines' own tasks, in order; faults of a script or of ours."""
        return tuple(self._failures)

    @property
    def has_processes(self) -> bool:
        """Whether an engine runs in a process of its own."""
        return any(not isinstance(handle, Endpoint) for handle in self._handles.values())

    def standing_still(self) -> tuple[int, ...]:
        """Ranks whose processes somebody else stopped."""
        return tuple(r for r, one in self._handles.items() if getattr(one, "stands_still", False))

    @property
    def busy_ranks(self) -> tuple[int, ...]:
        """Engines in which something runs that waits for nothing scripted."""
        return tuple(rank for rank, handle in self._handles.items() if handle.busy)

    @property
    def group_states(self) -> tuple[str, ...]:
        """What each of the engines that step together is at; nothing where none do."""
        return () if self._group is None else self._group.states()

    def start(self) -> None:
        """Begin all joins in the background."""
        for rank, handle in self._handles.items():
            if rank not in self._unstarted:
                handle.start()

    async def joined(self, ranks: Sequence[int] | None = None) -> None:
        """Return once these engines have joined; ``None`` = all that are not told never to.

        Raises:
            what startup of one of them raised.
        """
        for rank in self._awaited if ranks is None else ranks:
            try:
                await self._handle(rank).joined()
            except Exception as error:
                if error in self._unraised:
                    self._unraised.remove(error)
                raise

    def has_joined(self, rank: int) -> bool:
        """Whether startup of this engine is over, and it lives."""
        return self._handle(rank).has_joined

    async def act(self, rank: int, actions: Sequence[Action], *, background: bool = False) -> None:
        """Let one engine act outside any rule; ``background``: do not wait until it is done.

        Actions that stall the engine are not waited for either.

        Raises:
            ScriptError: the actions need a message, or a socket that the engine has not.
        """
        if problems := action_problems(actions, "act"):
            raise ScriptError("; ".join(problems))
        await self._handle(rank).act(actions, background=background)

    async def idle(self) -> None:
        """Return once every action of every engine has ended or waits for something scripted.

        Then reports each engine that lives and is not stalled as idle, with the requests that it
        still has. Events of engines in child processes that happened before have arrived when
        this returns.

        Raises:
            the first error in an engine's own tasks that was not raised before.
        """
        while True:
            for handle in self._handles.values():
                await handle.idle()
            if self._waves is not None and self._waves.sender is not None:
                await aio.ended([self._waves.sender])
            elif self._elastic is not None and self._elastic.task is not None:
                await aio.ended([self._elastic.task])
            elif not any(handle.busy for handle in self._handles.values()):
                break
        self._raise_new()
        for rank, handle in self._handles.items():
            if handle.has_joined and not handle.stalled:
                requests = tuple(handle.state()["request_ids"])
                self._observer(events.EngineIdle(rank, requests))
        if self._group is not None:
            for event in self._group.at_rest():
                self._observer(event)

    def state(self, rank: int) -> dict[str, Any]:
        """One engine's state: requests, utilities, wave, whether it lives or is stalled."""
        state = dict(self._handle(rank).state())
        running = False
        if self._waves is not None and rank in self._waves.model.participants():
            state["wave"] = self._waves.model.wave(rank)
            running = self._waves.model.running(rank)
        return {"running": running, **state}

    async def kill(self, rank: int, how: str) -> None:
        """Let one engine die: ``sentinel``, ``close`` or ``vanish``."""
        await self._handle(rank).die(how)

    async def rejoin(self, rank: int) -> None:
        """Bring an engine back with its identity; returns once it has registered."""
        await self._handle(rank).rejoin()

    async def grow(self, ranks: Sequence[int], size: int) -> None:
        """Start engines for a deployment of ``size``; returns once they have joined.

        They are new processes, also where a rank was there before, and do not take part before
        old and new ranks have met.

        Raises:
            what startup of one of them raised.
        """
        for rank in ranks:
            old = self._handle(rank)
            if not isinstance(old, Endpoint):
                msg = f"engine {rank} is a process of its own and cannot be started again"
                raise ScriptError(msg)
            await old.stop()
            addresses = dataclasses.replace(old.setup.addresses, handshake=None)
            setup = msgspec.structs.replace(
                old.setup, addresses=addresses, data_parallel_size=size, joins=size
            )
            self._unstarted.pop(rank, None)
            if self._group is not None:
                self._group.expect(rank)
            self._handles[rank] = self._make_endpoint(setup, met=old.rules.met)
            self._handles[rank].start()
        await self.joined(ranks)

    async def removed(self, ranks: Sequence[int]) -> None:
        """Release what is left of engines that ended because the deployment shrank."""
        for rank in ranks:
            await self._handle(rank).stop()

    async def stop(self) -> None:
        """End all engines and release everything. Idempotent.

        Raises:
            the first error in an engine's own tasks that was not raised before.
        """
        sender = self._waves.sender if self._waves is not None else None
        if self._waves is not None:
            self._waves.stop()
        if sender is not None:
            await aio.ended([sender])
        if self._elastic is not None and (switching := self._elastic.task) is not None:
            switching.cancel()
            await aio.ended([switching])
        for handle in self._handles.values():
            await handle.stop()
        self._raise_new()

    def let_go(self) -> None:
        """Forget the engines once they are stopped; nothing is asked of them any more.

        They refer to each other and to this in circles, and would stay in memory until a garbage
        collection.
        """
        for handle in self._handles.values():
            if isinstance(handle, Endpoint):
                handle.let_go()
        self._handles.clear()
        if self._group is not None:
            self._group.let_go()
        self._waves = self._elastic = self._group = None
        self._on_failure = None

    def _handle(self, rank: int) -> EngineHandle:
        try:
            return self._handles[rank]
        except KeyError:
            there = ", ".join(str(known) for known in self.ranks)
            msg = f"there is no engine {rank} (ranks: {there})"
            raise ScriptError(msg) from None

    def _failed(self, error: BaseException) -> None:
        self._failures.append(error)
        self._unraised.append(error)
        if self._on_failure is not None:
            self._on_failure(error)

    def _raise_new(self) -> None:
        if self._unraised:
            error = self._unraised[0]
            self._unraised.clear()
            raise error


def _endpoint(
    transport: Transport,
    transport_of: Callable[[int], Transport] | None,
    setup: EngineSetup,
    *,
    met: Sequence[int] = (),
) -> Endpoint:
    """Make an engine that runs in this process."""
    own = transport if transport_of is None else transport_of(setup.rank)
    return Endpoint(setup, own, met=met)
