"""Plays the steps of a scenario against a frontend and mock engines, in the running loop.

The driver knows no target: it starts operations as background tasks, waits for trace events
and gates, and records what callers see. Judging is left to invariants and expectations.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from packaging.version import Version

from client.aio import (
    Deadline,
    DeadlineExceeded,
    all_done,
    cancel_and_wait,
    next_entry,
    within,
)
from harness.broken import Broken, guarded
from harness.expectations import Op, Outcome, View, asked_for
from harness.expectations import judge as judge_expectation
from harness.fence import Fence
from harness.frontend_end import EndWatch
from harness.launching import ClusterLauncher
from harness.links_step import apply_link_step, links_confirmed
from harness.operations import Operations
from harness.scenario.model import (
    CoordinatorStep,
    CrowdStep,
    EngineStep,
    EventMatch,
    Expect,
    Scenario,
    Step,
)
from harness.standstill import Stand, tell
from harness.standstill.telling import which_step
from harness.targets.base import (
    DisturbedFromOutside,
    Frontend,
    ProcessUse,
    StartFailed,
    TargetError,
)
from harness.trace.events import (
    ConnectEnded,
    FaultInjected,
    Fenced,
    Healed,
    HealthSample,
    MetricsSampled,
    ProcessSampled,
    RunEnded,
    StepBegan,
)
from harness.trace.kinds import class_of
from harness.trace.recorder import Recorder
from harness.worlds import World
from mock_engines.behaviours.model import Action
from mock_engines.cluster import Cluster
from mock_engines.events import AddSeen
from mock_engines.gates import Gates
from mock_engines.process import ChildKilledError

ARRIVAL_S = 1.0
"""How long an expectation waits for events that it asks for; a net, they are there or near."""
_FRONTEND = "the frontend's process"
CALLER_LIMIT_S = 0.05
"""More time that a step has for each caller of its crowd, on a busy machine."""


@dataclass(slots=True)
class StepResult:
    """An expectation, or a step that did not come to its end."""

    step: int
    outcome: Outcome


@dataclass(slots=True)
class Story:
    """What is left after a run: operations and step results."""

    ops: dict[str, Op] = field(default_factory=dict)
    results: list[StepResult] = field(default_factory=list)
    stuck: bool = False


class Driver:
    """One run of one scenario. Use once: ``await play()``, whatever happens ``await close()``."""

    def __init__(
        self,
        *,
        scenario: Scenario,
        release: Version,
        world: World,
        frontend: Frontend,
        cluster: Cluster,
        gates: Gates,
        trace: Recorder,
        black_box: bool,
        publishes_seen: bool = False,
    ) -> None:
        self._scenario = scenario
        self._release = release
        self._world = world
        self._frontend = frontend
        self._cluster = cluster
        self._gates = gates
        self._trace = trace
        self._black_box = black_box
        self._background: list[asyncio.Task[None]] = []
        self._limit: Deadline | None = None
        self._starting: asyncio.Task[None] | None = None
        self._connect: tuple[str | None, str] | None = None
        self._connected = False
        self._shut_down = False
        self._halted = False
        self._ending = EndWatch(scenario, trace) if black_box else None
        self._told_of_end = False
        broken: Broken | None = getattr(frontend, "broken", None)
        self.broken = Broken() if broken is None and cluster.has_processes else broken
        self._still: str | None = None
        self._samples: dict[str, ProcessUse] = {}
        self._fence = Fence(
            world=world,
            frontend=frontend,
            cluster=cluster,
            trace=trace,
            black_box=black_box,
            publishes_seen=publishes_seen,
            frontends=scenario.topology.frontends,
        )
        self._operations = Operations(frontend, trace, ClusterLauncher(cluster))
        self.story = Story(ops=self._operations.ops)

    # --- the whole run ----------------------------------------------------------------------

    async def play(self) -> Story:
        """Start, play every step, heal, fence and record the end.

        Raises:
            StartFailed: startup failed although the scenario does not expect it.
            TargetError: the harness could not do what a step asks.
        """
        try:
            await self._start()
        except TargetError:
            if not await self._gone(0, "before the first step"):
                raise
            return self.story
        late = await (self._steps() if self._ending is not None else self._steps_in_a_task())
        if late is not None and not await self._gone(late, f"at {self._which(late)}"):
            self._give_up(late)
        await self._to_the_end()
        return self.story

    async def _steps_in_a_task(self) -> int | None:
        """Play the steps in a task of their own: when one begins is a choice of the schedule."""
        task = asyncio.get_running_loop().create_task(self._steps(), name="step")
        try:
            await all_done([task])
        finally:
            await cancel_and_wait([task])
            if self._limit is not None:  # it is that task's
                self._limit.close()
                self._limit = None
        return task.result()

    async def _steps(self) -> int | None:
        """Play one step after the other; the number of one that did not come to its end.

        Raises:
            TargetError: as for ``play``.
        """
        for index, step in enumerate(self._scenario.steps):
            self._trace.emit(StepBegan(index, step.verb))
            try:
                await self._bounded(index, step)
            except DeadlineExceeded:
                return index
            except StartFailed:
                # At a step `connect`; it says itself what broke.
                raise
            except Exception as error:
                if await self._gone(index, f"at {self._which(index)}"):
                    break
                raise _broke(self._which(index), error) from error
            if self._ending is not None and self._ending.seen is not None:
                await self._gone(index, f"at {self._which(index)}")
                break
            self._raise_broken()
        return None

    async def _bounded(self, index: int, step: Step) -> None:
        """Play a step; what ends the way to the frontend, or the frontend, ends it."""
        work = partial(self._play, index, step)
        if self._ending is not None:
            await self._ending.within(guarded(self, work), self._limit_s(step))
            return
        await next_entry()
        await self._within(guarded(self, work), self._limit_s(step))

    async def _within(self, work: Awaitable[None], seconds: float) -> None:
        """Await something for at most ``seconds``, with one timer for all that a task awaits."""
        limit = self._limit = self._limit or Deadline()
        limit.begin(seconds)
        try:
            await work
        except asyncio.CancelledError:
            limit.check()
            raise
        finally:
            limit.end()

    async def _gone(self, index: int, where: str) -> bool:
        """Whether the frontend's process ended although nobody asked; then that is the result."""
        if self._ending is None:
            return False
        if self._ending.seen is None:
            # Its sockets go a moment before it does.
            await self._frontend.exit_code()
        if self._ending.seen is None:
            return False
        if not self._told_of_end:
            self._told_of_end = True
            # First: the other results are its consequences, also those of the same step.
            self.story.results.insert(0, StepResult(index, self._ending.outcome(where)))
        return True

    async def _to_the_end(self) -> None:
        last = max(0, len(self._scenario.steps) - 1)
        try:
            await self._end()
        except TargetError:
            # What the end of the frontend made of the rest is no fault of anybody else.
            if not await self._gone(last, "after the last step"):
                raise
        else:
            if self._ending is not None and self._ending.seen is not None:
                await self._gone(last, "after the last step")

    async def _start(self) -> None:
        self._cluster.start()
        work = asyncio.get_running_loop().create_task(self._start_frontend(), name="connect")
        self._starting = work
        if all(step.verb != "connect" for step in self._scenario.steps):
            await self._started()

    async def _started(self) -> None:
        """Wait for startup; its failure ends the run unless the scenario is about it."""
        assert self._starting is not None
        await all_done([self._starting])
        self._starting.result()
        process = getattr(self._frontend, "coordinator", None)
        if self._connected and process is not None and process.running and not self._shut_down:
            await process.front_subscribed(self._scenario.topology.frontends)
            self._fence.frontends_subscribed()

    async def _start_frontend(self) -> None:
        try:
            if self._cluster.has_processes:
                await guarded(self, self._frontend.start)
            else:
                await self._frontend.start()
        except TargetError:
            raise
        except Exception as error:
            self._connect = (type(error).__name__, str(error))
            self._trace.emit(ConnectEnded(*self._connect))
            if not self._scenario.connect_fails:
                msg = f"startup failed: {type(error).__name__}: {error}"
                if command := getattr(error, "command", ""):
                    msg += f"\ncommand: {command}"
                raise StartFailed(msg) from error
            return
        self._connected = True
        self._connect = (None, "")
        self._trace.emit(ConnectEnded(None, ""))
        if not self._scenario.connect_fails:
            try:
                await within(self._cluster.joined(), self._world.step_limit_s)
            except DeadlineExceeded as error:
                ranks = self._scenario.topology.rank_list
                away = [str(rank) for rank in ranks if not self._cluster.has_joined(rank)]
                msg = (
                    f"the client is connected, but after {self._world.step_limit_s:g} s engines "
                    f"have not joined: {', '.join(away)}"
                )
                raise TargetError(msg) from error

    def _limit_s(self, step: Step) -> float:
        """How long a step may take: a crowd has its time for each caller on top."""
        callers = 0 if step.crowd is None else step.crowd.callers
        return self._world.step_limit_s + callers * CALLER_LIMIT_S

    def _which(self, index: int) -> str:
        return which_step(index, self._scenario.steps[index])

    def _give_up(self, index: int) -> None:
        self.story.stuck = True
        stand = Stand(
            scenario=self._scenario,
            index=index,
            records=self._trace.records,
            matches=self._trace.match,
            ops=self.story.ops,
            closed=self._gates.waited_for(),
            opened=self._gates.opened(),
            busy=self._cluster.busy_ranks,
            fence=self._fence.waits_for,
            states=self._cluster.group_states,
            limit_s=self._limit_s(self._scenario.steps[index]),
            black_box=self._black_box,
        )
        self.story.results.append(StepResult(index, tell(stand)))

    def _raise_broken(self) -> None:
        """Raise what ended an operation or a background action other than with an outcome.

        That is a fault of the harness, the scenario or the frontend's code; whoever waits for
        the operation would see it pending for ever.
        """
        for task in [*self._operations.tasks.values(), *self._background]:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise _broke(task.get_name(), error) from error

    async def _end(self) -> None:
        apply_link_step(self._frontend, None)
        if self._halted:
            await self._frontend.signal("CONT")
        keep = set(self._scenario.open_at_end)
        self._open_gates(keep)
        self._trace.emit(Healed())
        await self._startup_over()
        due = [task for name, task in self._operations.tasks.items() if name not in keep]
        fenced = True
        try:
            await self._within(guarded(self, partial(self._rest, due)), self._world.step_limit_s)
        except DeadlineExceeded:
            fenced = False
            await self._look()
        self._raise_broken()
        if self._connected and not self._shut_down:
            shot = await self._frontend.snapshot("end")
            if shot is not None:
                self._trace.emit(shot)
            await self._sample_health()
        if fenced:
            self._trace.emit(Fenced("end"))
        open_ops = tuple(op.id for op in self.story.ops.values() if op.outcome == "pending")
        self._trace.emit(RunEnded(open_ops))

    async def _look(self) -> None:
        """Let engines that step together say who is stuck: that is why no fence came, perhaps."""
        if self._scenario.topology.waves != "lockstep":
            return
        with contextlib.suppress(DeadlineExceeded):
            await self._within(self._cluster.idle(), self._world.step_limit_s)

    async def _startup_over(self) -> None:
        """Wait for startup, which is still under way only if an earlier step was stuck."""
        limit_s = self._world.step_limit_s
        try:
            await self._within(self._started(), limit_s)
        except DeadlineExceeded as error:
            msg = f"startup did not come to its end, {limit_s:g} s after all was healed"
            raise TargetError(msg) from error

    def _open_gates(self, keep: set[str]) -> None:
        """Open every gate that may open; those at which nobody waits yet too, if none is kept."""
        if not keep:
            self._gates.open_all()
            return
        for name in self._gates.waited_for():
            if name not in keep:
                self._gates.open(name)

    async def _rest(self, due: Sequence[asyncio.Task[None]]) -> None:
        await links_confirmed(self._frontend)
        await all_done([*self._background, *due])
        await self._fence()

    async def close(self) -> None:
        """Cancel what is still open, stop frontend and engines. Never leaves a task behind."""
        self._still = self._stands_still()
        if self._limit is not None:
            self._limit.close()
        # A second interruption ends one wait only: frontend and engines are stopped all the same.
        try:
            await self._cancel_open()
            await self._world.settle()
        finally:
            try:
                await self._frontend.stop()
            finally:
                await self._cluster.stop()
                self._cluster.let_go()

    def engine_failed(self, error: BaseException) -> None:
        """Nothing is waited for any more once somebody else killed an engine's process."""
        if isinstance(error, ChildKilledError) and self.broken is not None:
            self.broken.set(TargetError(str(error)))

    def check_untouched(self, seen: object = None) -> None:
        """See that nobody else killed or stopped a process of the run; behind ``close``.

        ``seen``: what failed, as the target told it.

        Raises:
            DisturbedFromOutside: somebody did.
        """
        for failure in self._cluster.failures:
            if isinstance(failure, ChildKilledError):
                who = _process_of(failure.rank)
                raise DisturbedFromOutside(who, killed=True, seen=seen) from failure
        if getattr(self._frontend, "killed", False):
            raise DisturbedFromOutside(_FRONTEND, killed=True, seen=seen)
        if self._still is not None:
            raise DisturbedFromOutside(self._still, killed=False, seen=seen)

    def _stands_still(self) -> str | None:
        """Whose process stands still although this run did not stop it."""
        if getattr(self._frontend, "stands_still", False):
            return _FRONTEND
        return next((_process_of(rank) for rank in self._cluster.standing_still()), None)

    async def _cancel_open(self) -> None:
        """End all tasks and let go of them: a finished task holds what its coroutine used."""
        starting = [] if self._starting is None else [self._starting]
        for task in [*starting, *self._operations.tasks.values(), *self._background]:
            await cancel_and_wait([task])
        self._starting = None
        self._operations.tasks.clear()
        self._background.clear()

    # --- steps ------------------------------------------------------------------------------

    async def _play(self, index: int, step: Step) -> None:
        match step.verb:
            case "expect":
                assert step.expect is not None
                outcome = await self._judge(step.expect)
                self.story.results.append(StepResult(index, outcome))
            case "connect":
                await self._started()
            case "fence":
                await self._fence()
                self._trace.emit(Fenced("step"))
            case "finish":
                for name in step.finish or []:
                    await all_done([self._operations.task(name)])
            case "open":
                assert step.open is not None
                self._gates.open(step.open)
            case "call" | "utility" | "scale" | "http" | "grpc":
                self._operations.begin(step)
            case "cancel" | "drop":
                await self._operations.leave(step)
            case "abort":
                await self._operations.abort(step.abort or [])
            case _:
                await self._play_fault(step)

    async def _play_fault(self, step: Step) -> None:
        if step.wait is not None:
            await self._wait(step.wait, step.wait.count)
        elif step.engine is not None:
            await self._engine(step.engine)
        elif step.link is not None:
            self._trace.emit(FaultInjected(f"link {_flat(step.link)}"))
            apply_link_step(self._frontend, step.link)
            await links_confirmed(self._frontend)
        elif step.coordinator is not None:
            await self._coordinator(step.coordinator)
        elif step.load is not None:
            await self._operations.load(step.load, self._busy)
        elif step.crowd is not None:
            await self._operations.crowd(self._crowd(step.crowd), self._fence)
        elif step.sample is not None:
            await self._sample(step.sample.id)
        elif step.signal is not None:
            self._trace.emit(FaultInjected(f"SIG{step.signal} to the frontend"))
            self._halted = step.signal == "STOP" or (self._halted and step.signal != "CONT")
            await self._frontend.signal(step.signal)
        elif step.shutdown is not None:
            self._shut_down = True
            await self._frontend.shutdown(step.shutdown.timeout_s)
        else:
            msg = f"step verb {step.verb!r} is not playable"
            raise TargetError(msg)

    def _crowd(self, step: CrowdStep) -> CrowdStep:
        """The crowd of this world: where orders are chosen, it may be a smaller one."""
        if step.simulated is None or not self._world.virtual:
            return step
        return step.model_copy(update={"callers": step.simulated})

    async def _wait(self, wanted: EventMatch, count: int) -> None:
        loop = asyncio.get_running_loop()
        enough: asyncio.Future[None] = loop.create_future()
        found = 0

        def look(record: Any) -> None:
            nonlocal found
            if self._trace.match(record, wanted):
                found += 1
                if found >= count and not enough.done():
                    enough.set_result(None)

        kind = class_of(wanted.event)
        for record in list(self._trace.records):
            if type(record.event) is kind:
                look(record)
        unsubscribe = self._trace.subscribe(look, kind)
        try:
            await enough
        finally:
            unsubscribe()

    async def _sample(self, label: str) -> None:
        use = await self._frontend.process_use()
        if use is not None:
            self._samples[label] = use
            self._trace.emit(ProcessSampled(label, use.rss_bytes, use.descriptors, use.threads))

    def _busy(self) -> bool:
        return any(not task.done() for task in self._background)

    def _ranks(self, which: int | list[int] | str) -> list[int]:
        if which == "all":
            return self._scenario.topology.rank_list
        return [which] if isinstance(which, int) else [int(rank) for rank in which]

    async def _engine(self, step: EngineStep) -> None:
        for rank in self._ranks(step.engine):
            if step.rejoin:
                self._trace.emit(FaultInjected(f"engine {rank} rejoins"))
                await self._cluster.rejoin(rank)
                await self._fence()
            if step.do:
                verbs = ", ".join(action.verb for action in step.do)
                self._trace.emit(FaultInjected(f"engine {rank}: {verbs}"))
                work = self._cluster.act(rank, [self._named(action) for action in step.do])
                if step.background:
                    task = asyncio.get_running_loop().create_task(work, name=f"act {rank}")
                    self._background.append(task)
                else:
                    await work

    def _named(self, action: Action) -> Action:
        """An output may name a call of the scenario: put the id there that engines know it by."""
        output = action.output
        if output is None or output.request not in self._operations.ops:
            return action
        match = EventMatch(event="add", request=output.request)
        for record in self._trace.records:
            if isinstance(record.event, AddSeen) and self._trace.match(record, match):
                known = output.model_copy(update={"request": record.event.request_id})
                return action.model_copy(update={"output": known})
        return action

    async def _coordinator(self, step: CoordinatorStep) -> None:
        process = getattr(self._frontend, "coordinator", None)
        if process is None:
            msg = "this run has no external coordinator to act on"
            raise TargetError(msg)
        self._trace.emit(FaultInjected(f"coordinator {_flat(step)}"))
        if step.stop:
            await process.stop()
        if step.start:
            await process.start()
            if not self._shut_down:  # else nobody subscribes any more
                await process.front_subscribed(self._scenario.topology.frontends)
            self._fence.coordinator_restarted()
        if step.publish is not None:
            counts, wave, running = step.publish
            await process.publish(counts, wave, running)
        if step.publish_raw is not None:
            await process.publish_raw([bytes.fromhex(frame) for frame in step.publish_raw])

    # --- judging ----------------------------------------------------------------------------

    async def _sample_health(self) -> None:
        health = await self._frontend.health()
        if health is not None:
            self._trace.emit(HealthSample(health.healthy, health.error, health.message))

    async def _arrived(self, expect: Expect) -> None:
        """Give a frontend of its own process time for what a count or an order asks for.

        Nothing that it is asked in between has to wait for what it does besides.
        """
        try:
            for wanted, count in asked_for(expect):
                await within(self._wait(wanted, count), ARRIVAL_S)
        except DeadlineExceeded:
            return  # the expectation says what is missing

    async def _judge(self, expect: Expect) -> Outcome:
        if self._black_box:
            await self._arrived(expect)
        asked = expect.model_fields_set
        snapshot = health = info = state = metrics = use = code = None
        if asked & {
            "pending_utility_calls",
            "in_flight",
            "coordinator_wave",
            "coordinator_running",
        }:
            snapshot = await self._frontend.snapshot("step")
            if snapshot is not None:
                self._trace.emit(snapshot)
        if asked & {"healthy", "health_error"}:
            health = await self._frontend.health()
            if health is not None:
                self._trace.emit(HealthSample(health.healthy, health.error, health.message))
        if "server_info" in asked:
            info = await self._frontend.server_info()
        if expect.metrics is not None:
            metrics = await self._frontend.metrics()
            if metrics is not None:
                seen = metrics.samples
                found = ((name, seen[name]) for name in expect.metrics if name in seen)
                self._trace.emit(MetricsSampled(tuple(sorted(found))))
        if expect.process is not None:
            use = await self._frontend.process_use()
        if expect.exit_code is not None:
            code = await self._frontend.exit_code()
        if expect.state is not None and expect.engine is not None:
            state = self._cluster.state(expect.engine)
        if expect.op is not None and "engine" in asked:
            self._find_engine(expect.op)
        view = View(
            ops=self.story.ops,
            records=self._trace.records,
            matches=self._trace.match,
            release=self._release,
            connect_error=self._connect,
            snapshot=snapshot,
            health=health,
            server_info=info,
            engine_state=state,
            metrics=metrics,
            use=use,
            samples=self._samples,
            exit_code=code,
        )
        return judge_expectation(expect, view)

    def _find_engine(self, name: str) -> None:
        op = self.story.ops.get(name)
        if op is None:
            return
        match = _add_of(name)
        for record in self._trace.records:
            if record.event.__class__ is AddSeen and self._trace.match(record, match):
                op.engine = record.event.engine


@lru_cache(maxsize=256)
def _add_of(name: str) -> EventMatch:
    """Kept: a model is checked when it is made, and this one is asked for in every schedule."""
    return EventMatch(event="add", request=name)


def _process_of(rank: int) -> str:
    return f"the process of engine {rank}"


def _broke(what: str, error: BaseException) -> TargetError:
    kind = "" if isinstance(error, TargetError) else f"{type(error).__name__}: "
    return TargetError(f"{what} broke: {kind}{error}")


def _flat(model: Any) -> str:
    return " ".join(f"{k}={v}" for k, v in model.model_dump(exclude_unset=True).items())


__all__ = ["Driver", "StepResult", "Story"]
