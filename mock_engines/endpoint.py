"""The asyncio shell of one engine: sockets in, plans out.

Messages of a socket are handled in the order in which they arrive. A plan is carried out on the
spot as far as it cannot take long, so that effects keep that order as in a real engine; from the
first action that may take long on it has a task of its own, so that a hanging one holds up
nobody. Events leave synchronously, at the moment of the fact.

A stalled engine stops at its next step, whatever that is: before it handles a message, carries
out an action, sends, or goes on after a wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from client.protocol.codec import Codec
from client.protocol.messages import Init
from client.protocol.transport import Transport
from mock_engines import aio, events
from mock_engines.activity import Activity
from mock_engines.actor import Actor
from mock_engines.behaviours.model import Action
from mock_engines.behaviours.registry import behaviour_of
from mock_engines.engine import MockEngine
from mock_engines.handle import EngineSetup, Lockstep
from mock_engines.join import Joining, identity_of, stay_away
from mock_engines.matching import Message, Plan, RuleBook
from mock_engines.membership import WaveMembership
from mock_engines.outlets import Outlets, ScriptError, Sockets
from mock_engines.receiving import Receiver
from mock_engines.stepping import Stepping


class Endpoint:
    """One engine on a transport. Implements ``EngineHandle``.

    Args:
        setup: what it is.
        transport: where its sockets live; not closed here.
        vanish: ends the process when the engine is to vanish; without it the sockets are
            closed instead.
        halt: told of the gate when the engine stalls; the process may be stopped until that
            is open. Without it only the engine stands still.
        met: how many messages each rule has met already (an engine that came back).
    """

    def __init__(
        self,
        setup: EngineSetup,
        transport: Transport,
        *,
        vanish: Callable[[], None] | None = None,
        halt: Callable[[str], None] | None = None,
        met: Sequence[int] = (),
    ) -> None:
        self.setup = setup
        self.rules = RuleBook(setup.script.rules, met)
        self._activity = Activity(setup.gates)
        self._waves = WaveMembership(setup.waves, setup.rank)
        self._codec = Codec(setup.profile)
        self.out = Outlets(setup.rank, self._codec, setup.observer, self._activity.running)
        self.init: Init | None = setup.addresses.as_init()
        self._transport = transport
        self._vanish = vanish
        self._actor = Actor(
            setup,
            engine=self._fresh_engine(),
            out=self.out,
            activity=self._activity,
            waves=self._waves,
            die=self.die,
            halt=halt,
        )
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._alive = True
        self._joined = asyncio.Event()
        self._failure: BaseException | None = None
        self._stepping: asyncio.Task[None] | None = None

    # --- EngineHandle -----------------------------------------------------------------------

    def start(self) -> None:
        """Begin to join, in the background."""
        self._spawn(self._join(), "join")

    @property
    def has_joined(self) -> bool:
        """Whether startup is over and the engine lives."""
        return self._alive and self._joined.is_set() and self._failure is None

    @property
    def busy(self) -> bool:
        """Whether an action is under way that waits for nothing scripted."""
        return self._activity.busy

    @property
    def stalled(self) -> bool:
        """Whether it reads and sends nothing, until a gate opens."""
        return self._activity.stalled

    async def joined(self) -> None:
        """Return once startup is over, be it by death. Raises what startup raised."""
        await self._joined.wait()
        if self._failure is not None:
            raise self._failure

    async def act(self, actions: Sequence[Action], *, background: bool = False) -> None:
        """Carry out actions outside any rule. Raises ``ScriptError``.

        Returns when they have ended, or have stalled the engine.
        """
        if not self._alive:
            msg = f"engine {self.setup.rank} is dead and cannot act"
            raise ScriptError(msg)
        plan = Plan(Message("act"), tuple(actions))
        if self.stalled and any(action.die == "vanish" for action in actions[:1]):
            # Whoever kills a process needs no help from it.
            await self.die("vanish")
        elif background:
            self._spawn_plan(plan, 0)
        else:
            await self._act(plan)

    async def _act(self, plan: Plan) -> None:
        stalls = [place for place, action in enumerate(plan.actions) if action.stall is not None]
        first = stalls[0] if stalls else len(plan.actions)
        task = asyncio.current_task()
        self._activity.begin(task)
        rest = None
        try:
            await self._carry_out(plan, 0, first)
            if stalls and self._alive:
                rest = self._spawn_plan(plan, first)
        finally:
            self._activity.end(task)
        if rest is not None:
            await self._activity.ended_or_stalled(rest)

    async def idle(self) -> None:
        """Return once every action has ended or waits for something scripted."""
        await self._activity.idle()

    def state(self) -> Mapping[str, Any]:
        """The engine's state as plain values."""
        return {
            "alive": self._alive,
            "joined": self.has_joined,
            "stalled": self.stalled,
            "rules_met": list(self.rules.met),
            **self._actor.engine.view(),
            **({} if self._actor.stepping is None else self._actor.stepping.view()),
        }

    async def notice(self, notice: str, wave: int) -> None:
        """Send a wave notice that the wave model asks for; a stalled engine does so later."""
        if not self._alive or self.out.sockets.coordinator_output is None:
            return
        if self.stalled:
            self._spawn_tracked(self.out.notice(notice, wave), "notice")
        else:
            await self.out.notice(notice, wave)

    def waves_moved(self) -> None:
        """Nothing to do: the wave model is asked whenever it is needed."""

    async def die(self, how: str) -> None:
        """Die: ``sentinel``, ``close`` or ``vanish``. Nothing happens to a dead one.

        A stalled engine can only vanish; the others wait until it goes on.
        """
        if how != "vanish":
            await self._activity.running()
        if not self._alive:
            return
        self._alive = False
        self._joined.set()
        self.setup.observer(events.EngineDied(self.setup.rank, how))
        if self.setup.lockstep is not None:
            self.setup.lockstep.group.died(self.setup.rank)
        if how == "sentinel":
            await self.out.sentinel()
        self._waves.leave()
        if how == "vanish" and self._vanish is not None:
            # The process ends as it is; nobody closes its sockets.
            self._cancel_tasks()
            self._vanish()
            return
        self._disconnect()

    async def elastic_notice(self, notice: str) -> None:
        """Tell the frontend how far a change of the number of engines is."""
        await self.out.elastic_notice(notice)

    async def remove(self) -> None:
        """End because there are to be fewer engines; nobody misses it."""
        if not self._alive:
            return
        self._alive = False
        self._joined.set()
        self.setup.observer(events.EngineRemoved(self.setup.rank))
        if self.setup.lockstep is not None:
            self.setup.lockstep.group.left(self.setup.rank)
        self._waves.leave()
        self._disconnect()

    async def rejoin(self) -> None:
        """Come back with the same identity: new sockets, registered again.

        An engine that had died is a new process with nothing in it; one that lives only
        reconnects. Its rules go on counting.
        """
        if self.init is None:
            msg = f"engine {self.setup.rank} never learnt where to connect"
            raise ScriptError(msg)
        await self._activity.running()
        self._disconnect(loop_too=not self._alive)
        if not self._alive:
            self._actor.engine = self._fresh_engine()
            self._actor.stepping = None
            self._alive = True
        self.out.sockets = Sockets()
        await self._joining().return_with(self.init)
        self._enter()

    async def stop(self) -> None:
        """End it and release everything. Idempotent."""
        self._alive = False
        self._joined.set()
        tasks = tuple(self._tasks)
        self._disconnect()
        await aio.ended(tasks)

    def let_go(self) -> None:
        """Forget the engine's state: it refers to this. It must have been stopped."""
        if self._actor.stepping is not None:
            self._actor.stepping.let_go()
            self._actor.stepping = None
        self._stepping = None
        del self._actor

    # --- joining ----------------------------------------------------------------------------

    def _fresh_engine(self) -> MockEngine:
        return MockEngine(self.setup.rank, self.setup.profile, self.rules, self._changed)

    def _joining(self) -> Joining:
        setup = self.setup
        # A process that disappears takes along what it has not sent.
        vanishes = self._vanish is None and (setup.script.vanishes or setup.script.process)
        return Joining(
            transport=self._transport,
            codec=self._codec,
            join=setup.script.join,
            rank=setup.rank,
            addresses=setup.addresses,
            data_parallel_size=setup.data_parallel_size,
            sockets=self.out.sockets,
            emit=setup.observer,
            lingers=not vanishes,
            running=self._activity.running,
        )

    async def _join(self) -> None:
        join = self.setup.script.join
        if join.never:
            await stay_away()
        if join.gate is not None:
            await self.setup.gates.wait(join.gate)
        self.init = await self._joining().run()
        self._enter()

    def _enter(self) -> None:
        """Startup is over: report it, take part in waves, read what arrives."""
        sockets, rank = self.out.sockets, self.setup.rank
        coordinator = sockets.coordinator_input
        if coordinator is not None:
            self._waves.enter()
        identity = identity_of(self.setup.script.join, rank)
        self.setup.observer(events.EngineJoined(rank, identity, coordinator is not None))
        receiver = Receiver(
            rank=rank,
            codec=self._codec,
            engine=self._actor.engine,
            out=self.out,
            waves=self._waves,
            emit=self.setup.observer,
            begin=self._begin,
            running=self._activity.running,
            alive=lambda: self._alive,
        )
        for number, socket in enumerate(sockets.inputs):
            self._spawn(receiver.read_input(socket, number), f"input {number}")
        if coordinator is not None:
            self._spawn(receiver.read_coordinator(coordinator), "coordinator")
        if self.setup.lockstep is not None:
            self._step(self.setup.lockstep)
        if self.setup.joins is not None and self.setup.elastic is not None:
            self.setup.elastic.arrived(rank)
        self._joined.set()

    def _step(self, lockstep: Lockstep) -> None:
        """Begin to step with the others; after a mere reconnection, go on."""
        if self.out.sockets.coordinator_output is None:
            msg = f"engine {self.setup.rank} steps with others, which needs a coordinator"
            raise ScriptError(msg)
        if self._actor.stepping is not None:
            return
        self._actor.stepping = Stepping(
            self.setup,
            lockstep,
            engine=self._actor.engine,
            out=self.out,
            activity=self._activity,
            apply=self._actor.apply,
        )
        self._stepping = self._spawn_tracked(self._run(self._actor.stepping), "loop")

    async def _run(self, stepping: Stepping) -> None:
        await stepping.run()
        await (self.remove() if stepping.rank.left else self.die("close"))

    def _disconnect(self, *, loop_too: bool = True) -> None:
        self._cancel_tasks(None if loop_too else self._stepping)
        self.out.sockets.close()

    def _cancel_tasks(self, spared: asyncio.Task[None] | None = None) -> None:
        current = asyncio.current_task()
        for task in tuple(self._tasks):
            if task not in (current, spared):
                task.cancel()

    def _changed(self) -> None:
        """The engine's state changed: waves and waiting plans are told."""
        self._waves.work(unfinished=self._actor.engine.unfinished)
        self._activity.changed()

    # --- plans ------------------------------------------------------------------------------

    async def _begin(self, plan: Plan) -> None:
        """Carry a plan out as far as it cannot take long; the rest gets its own task."""
        blocking = [
            place for place, action in enumerate(plan.actions) if self._blocks(action, plan.message)
        ]
        first = blocking[0] if blocking else len(plan.actions)
        task = asyncio.current_task()
        self._activity.begin(task)
        try:
            await self._carry_out(plan, 0, first)
            if blocking and self._alive:
                self._spawn_plan(plan, first)
        finally:
            self._activity.end(task)

    def _blocks(self, action: Action, message: Message) -> bool:
        behaviour = behaviour_of(action)
        if self._actor.stepping is not None and behaviour.in_lockstep == "queues":
            return False
        return behaviour.blocks(action, message)

    async def _carry_out(self, plan: Plan, start: int, stop: int | None = None) -> None:
        for action in plan.actions[start:stop]:
            await self._activity.running()
            await behaviour_of(action).carry_out(action, plan.message, self._actor)
            if not self._alive:
                return

    def _spawn_plan(self, plan: Plan, start: int) -> asyncio.Task[None]:
        return self._spawn_tracked(self._carry_out(plan, start), plan.message.kind)

    def _spawn_tracked(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = self._spawn(work, what)
        self._activity.begin(task)
        task.add_done_callback(self._activity.end)
        return task

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        name = f"engine {self.setup.rank}: {what}"
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and self._failure is None:
            self._failure = error
            self._joined.set()
            self.setup.on_failure(error)
