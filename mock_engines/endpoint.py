"""The asyncio shell of one engine: sockets in, plans out.

Messages of a socket are handled in the order in which they arrive. A plan is carried out on the
spot as far as it cannot take long, so that effects keep that order as in a real engine; from the
first action that may take long on it has a task of its own, so that a hanging one holds up
nobody. Events leave synchronously, at the moment of the fact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from client.protocol.codec import Codec
from client.protocol.codec_errors import DecodeError
from client.protocol.messages import (
    READY_GATE,
    Abort,
    Add,
    EngineCoreRequest,
    EngineInput,
    Init,
    StartDpWave,
    UtilityCall,
)
from client.protocol.transport import Socket, SocketClosedError, Transport
from mock_engines import aio, events
from mock_engines.activity import Activity
from mock_engines.behaviours.model import Action
from mock_engines.behaviours.registry import behaviour_of
from mock_engines.engine import MockEngine, is_fence
from mock_engines.handle import EngineSetup
from mock_engines.join import Joining, stay_away
from mock_engines.matching import Message, Plan, RuleBook
from mock_engines.outlets import Outlets, ScriptError, Sockets
from mock_engines.stable import stable_repr
from mock_engines.utilities import Outcome


class Endpoint:
    """One engine on a transport. Implements ``EngineHandle``, and ``EngineIO`` for behaviours.

    Args:
        setup: what it is.
        transport: where its sockets live; not closed here.
        vanish: ends the process when the engine is to vanish; without it the sockets are
            closed instead.
        met: how many messages each rule has met already (an engine that came back).
    """

    def __init__(
        self,
        setup: EngineSetup,
        transport: Transport,
        *,
        vanish: Callable[[], None] | None = None,
        met: Sequence[int] = (),
    ) -> None:
        self.setup = setup
        self.rules = RuleBook(setup.script.rules, met)
        self.engine = self._fresh_engine()
        self.out = Outlets(setup.rank, Codec(setup.profile), setup.observer)
        self.init: Init | None = setup.addresses.as_init()
        self._codec = Codec(setup.profile)
        self._transport = transport
        self._vanish = vanish
        self._activity = Activity(setup.gates)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._alive = True
        self._in_waves = False
        self._joined = asyncio.Event()
        self._failure: BaseException | None = None

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

    async def joined(self) -> None:
        """Return once startup is over, be it by death. Raises what startup raised."""
        await self._joined.wait()
        if self._failure is not None:
            raise self._failure

    async def act(self, actions: Sequence[Action], *, background: bool = False) -> None:
        """Carry out actions outside any rule. Raises ``ScriptError``."""
        if not self._alive:
            msg = f"engine {self.setup.rank} is dead and cannot act"
            raise ScriptError(msg)
        plan = Plan(Message("act"), tuple(actions))
        if background:
            self._spawn_plan(plan, 0)
            return
        task = asyncio.current_task()
        self._activity.begin(task)
        try:
            await self._carry_out(plan, 0)
        finally:
            self._activity.end(task)

    async def idle(self) -> None:
        """Return once every action has ended or waits for something scripted."""
        await self._activity.idle()

    def state(self) -> Mapping[str, Any]:
        """The engine's state as plain values."""
        return {
            "alive": self._alive,
            "joined": self.has_joined,
            "rules_met": list(self.rules.met),
            **self.engine.view(),
        }

    async def notice(self, notice: str, wave: int) -> None:
        """Send a wave notice that the wave model asks for."""
        if self._alive and self.out.sockets.coordinator_output is not None:
            await self.out.notice(notice, wave)

    def waves_moved(self) -> None:
        """Nothing to do: the wave model is asked whenever it is needed."""

    async def die(self, how: str) -> None:
        """Die: ``sentinel``, ``close`` or ``vanish``. Nothing happens to a dead one."""
        if not self._alive:
            return
        self._alive = False
        self._joined.set()
        self.setup.observer(events.EngineDied(self.setup.rank, how))
        if how == "sentinel":
            await self.out.sentinel()
        self._leave_waves()
        if how == "vanish" and self._vanish is not None:
            # The process ends as it is; nobody closes its sockets.
            self._cancel_tasks()
            self._vanish()
            return
        self._disconnect()

    async def rejoin(self) -> None:
        """Come back with the same identity: new sockets, registered again.

        An engine that had died is a new process with nothing in it; one that lives only
        reconnects. Its rules go on counting.
        """
        if self.init is None:
            msg = f"engine {self.setup.rank} never learnt where to connect"
            raise ScriptError(msg)
        self._disconnect()
        if not self._alive:
            self.engine = self._fresh_engine()
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

    # --- EngineIO ---------------------------------------------------------------------------

    @property
    def real_peer(self) -> bool:
        """Whether the frontend is a black box on real sockets."""
        return self.setup.real_peer

    @property
    def wave(self) -> int:
        """The engine's own wave."""
        waves = self.setup.waves
        if waves is None or not self._in_waves:
            return self.engine.wave
        return waves.wave(self.setup.rank)

    async def hang(self, gate: str | None) -> None:
        """Wait for a gate; ``None`` = for ever."""
        await self._activity.hang(gate)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the engine's state satisfies a condition."""
        await self._activity.until(holds)

    async def delay(self, seconds: float) -> None:
        """Wait for a time on the loop's clock."""
        await aio.pause_for(seconds)

    async def next_turn(self) -> None:
        """Let whatever is ready run first."""
        await aio.next_turn()

    def open_gate(self, name: str) -> None:
        """Open a gate of the run."""
        self.setup.gates.open(name)

    def apply(self, call: UtilityCall) -> Outcome:
        """Let a utility take effect, and report it. Raises ``UtilityFailedError``."""
        outcome = self.engine.apply(call)
        if outcome.changed:
            view = self.engine.utility.view()
            text = ", ".join(f"{key}={view[key]!r}" for key in sorted(outcome.changed))
            rank = self.setup.rank
            self.setup.observer(events.UtilityApplied(rank, call.call_id, call.method, text))
        return outcome

    def apply_start_wave(self, start: StartDpWave) -> None:
        """Let a START_DP_WAVE take effect."""
        self.engine.apply_start_wave(start)
        if self.setup.waves is not None and self._in_waves:
            self.setup.waves.start_dp_wave(
                self.setup.rank, wave=start.wave, exclude=start.exclude_engine_index
            )

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
        has_coordinator = sockets.coordinator_input is not None
        if has_coordinator and self.setup.waves is not None and not self._in_waves:
            self._in_waves = True
            self.setup.waves.enter(rank)
        identity = self._joining().identity
        self.setup.observer(events.EngineJoined(rank, identity, has_coordinator))
        for number, socket in enumerate(sockets.inputs):
            self._spawn(self._receive(socket, self._handle_input), f"input {number}")
        if sockets.coordinator_input is not None:
            coordinator = sockets.coordinator_input
            self._spawn(self._receive(coordinator, self._handle_coordinator), "coordinator")
        self._joined.set()

    def _leave_waves(self) -> None:
        if self._in_waves and self.setup.waves is not None:
            self._in_waves = False
            self.setup.waves.leave(self.setup.rank)

    def _disconnect(self) -> None:
        self._cancel_tasks()
        self.out.sockets.close()

    def _cancel_tasks(self) -> None:
        current = asyncio.current_task()
        for task in tuple(self._tasks):
            if task is not current:
                task.cancel()

    # --- receiving --------------------------------------------------------------------------

    async def _receive(
        self, socket: Socket, handle: Callable[[list[bytes]], Coroutine[Any, Any, None]]
    ) -> None:
        while self._alive:
            try:
                frames = await socket.recv()
            except SocketClosedError:
                return
            if self._alive:
                await handle(frames)

    def _decode(self, frames: list[bytes]) -> EngineInput | None:
        try:
            return self._codec.decode_engine_input(frames)
        except DecodeError as error:
            self.setup.observer(events.UnknownSeen(self.setup.rank, str(error)))
            return None

    async def _handle_input(self, frames: list[bytes]) -> None:
        message = self._decode(frames)
        if isinstance(message, UtilityCall) and is_fence(message):
            index = message.client_index
            await self.out.reply(
                message.call_id, message.method, value=True, client_index=index, silent=True
            )
        elif isinstance(message, StartDpWave):
            detail = "START_DP_WAVE on the input socket"
            self.setup.observer(events.UnknownSeen(self.setup.rank, detail))
        elif message is not None:
            await self._begin(self._accept(message))

    async def _handle_coordinator(self, frames: list[bytes]) -> None:
        if frames == [READY_GATE]:
            # After startup it changes nothing, but shows that a late subscription was heard.
            self.setup.observer(events.GateOpened(self.setup.rank))
            return
        message = self._decode(frames)
        if isinstance(message, StartDpWave):
            rank, wave, exclude = self.setup.rank, message.wave, message.exclude_engine_index
            self.setup.observer(events.StartWaveSeen(rank, wave, exclude))
            await self._begin(self.engine.start_wave(message))
        elif message is not None:
            detail = f"{type(message).__name__} on the coordinator socket"
            self.setup.observer(events.UnknownSeen(self.setup.rank, detail))

    def _accept(self, message: Add | Abort | UtilityCall) -> Plan:
        """Report what arrived, and let the engine choose its plan."""
        rank, emit = self.setup.rank, self.setup.observer
        if isinstance(message, Add):
            emit(_add_seen(rank, message))
            return self._add(message.request)
        if isinstance(message, Abort):
            emit(events.AbortSeen(rank, tuple(message.request_ids)))
            return self.engine.abort(message.request_ids)
        emit(
            events.UtilitySeen(
                rank,
                message.call_id,
                message.method,
                stable_repr(message.args),
                message.client_index,
            )
        )
        return self.engine.utility_call(message)

    def _add(self, request: EngineCoreRequest) -> Plan:
        plan = self.engine.match(request)
        if not plan.ignores:
            if self._in_waves and self.setup.waves is not None:
                # Before the request counts as work: whether the engine was idle decides.
                paused = self.engine.utility.paused is not None
                wave = request.current_wave
                self.setup.waves.added(self.setup.rank, wave=wave, paused=paused)
            plan = self.engine.accept(request, plan)
        return plan

    def _changed(self) -> None:
        """The engine's state changed: waves and waiting plans are told."""
        if self._in_waves and self.setup.waves is not None:
            self.setup.waves.work(self.setup.rank, unfinished=self.engine.unfinished)
        self._activity.changed()

    # --- plans ------------------------------------------------------------------------------

    async def _begin(self, plan: Plan) -> None:
        """Carry a plan out as far as it cannot take long; the rest gets its own task."""
        for place, action in enumerate(plan.actions):
            behaviour = behaviour_of(action)
            if behaviour.blocks(action, plan.message):
                self._spawn_plan(plan, place)
                return
            await behaviour.carry_out(action, plan.message, self)
            if not self._alive:
                return

    async def _carry_out(self, plan: Plan, start: int) -> None:
        for action in plan.actions[start:]:
            await behaviour_of(action).carry_out(action, plan.message, self)
            if not self._alive:
                return

    def _spawn_plan(self, plan: Plan, start: int) -> None:
        task = self._spawn(self._carry_out(plan, start), plan.message.kind)
        self._activity.begin(task)
        task.add_done_callback(self._activity.end)

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


def _add_seen(rank: int, message: Add) -> events.AddSeen:
    request = message.request
    params = request.sampling_params
    extra = params.get("extra_args") if params is not None else None
    return events.AddSeen(
        engine=rank,
        request_id=request.request_id,
        external_id=request.external_req_id,
        wave=request.current_wave,
        data_parallel_rank=request.data_parallel_rank,
        client_index=request.client_index,
        prompt=tuple(request.prompt_token_ids or ()),
        extra_args="" if extra is None else stable_repr(extra),
        aux_bytes=tuple(len(frame) for frame in message.aux),
    )
