"""One run behind an adapter: the steps of a scenario as lines, its lines as results and events.

The adapter owns client and sockets; gates, mock engines and an external coordinator are here.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

from client.aio import DeadlineExceeded, with_deadline
from client.protocol.profiles import Profile
from client.protocol.transport import Transport
from harness.broken import Broken
from harness.play import FenceFilter
from harness.scenario.model import CallStep, LinkStep, Topology, UtilityStep
from harness.targets.adapter import idle
from harness.targets.adapter.answers import Answer
from harness.targets.adapter.conversation import ANSWER_S, Conversation, Refused
from harness.targets.adapter.lines import (
    Abort,
    AskHealth,
    AskServerInfo,
    Call,
    Cancel,
    Connect,
    Drop,
    Ended,
    Endpoints,
    Fence,
    Greeting,
    HealthResult,
    Link,
    Nothing,
    Open,
    ServerInfoResult,
    Shutdown,
    SnapshotResult,
    Start,
    StartResult,
    Stop,
    TakeSnapshot,
    Utility,
)
from harness.targets.adapter.process import AdapterProcess
from harness.targets.adapter.values import from_plain, to_plain
from harness.targets.base import (
    CallResult,
    Emit,
    Health,
    NoServer,
    OnOutput,
    TargetError,
    UtilityResult,
)
from harness.targets.coordinator_handle import CoordinatorHandle
from harness.targets.external import make_coordinator
from harness.targets.sizes import sizes_of
from harness.trace.events import Snapshot
from mock_engines.cluster import JoinAddresses
from mock_engines.gates import Gates

READY_TIMEOUT_S = 30.0
"""Limit of each receive of the startup where a scenario sets none, seconds."""
STOP_S = 20.0
"""How long an adapter may take to end a run, seconds."""
LEAVE_S = 20.0
"""How long it may take to end an operation whose caller left when the run was over, seconds."""


class AdapterStartError(Exception):
    """The client behind the adapter failed to start, which a scenario may expect.

    Raised as a subclass that has the name of the client's error.
    """


@cache
def _named(name: str) -> type[AdapterStartError]:
    return type(name, (AdapterStartError,), {"__doc__": f"Startup failed: {name}."})


class AdapterLinks:
    """The faults of the client's sends, which the adapter carries out."""

    def __init__(self, frontend: AdapterFrontend) -> None:
        self._frontend = frontend
        self._pending: list[LinkStep] = []
        self._any = False

    def apply(self, step: LinkStep) -> None:
        """Add the fault that a step names, or clear; in force once ``confirmed`` returns."""
        self._any = True
        self._pending.append(step)

    def clear(self) -> None:
        """Remove every fault; nothing is said to an adapter that never had one."""
        if self._any:
            self._pending.append(LinkStep(clear=True))

    async def confirmed(self) -> None:
        """Return once all that was asked for is in force."""
        while self._pending:
            await self._frontend.link(self._pending.pop(0))


class AdapterFrontend(NoServer):
    """A client or frontend behind an adapter, for one run.

    Attributes:
        faults: where the driver puts link faults.
        coordinator: the external coordinator, if the topology has one.
        broken: is set when the adapter, not what it stands for, fails.
    """

    def __init__(
        self,
        *,
        recipe: idle.Recipe,
        greeting: Greeting,
        mutant: str | None,
        topology: Topology,
        profile: Profile,
        transport: Transport,
        gates: Gates,
        emit: Emit,
    ) -> None:
        """Set up, without touching the system.

        Args:
            recipe: how the adapter is started.
            greeting: what it said when its capabilities were asked for.
            mutant: known bug that it is to carry.
            topology: of the scenario.
            profile: of the release that is spoken.
            transport: makes addresses, and carries the external coordinator.
            gates: of the run; the adapter hears of each that opens.
            emit: receives the client's events.
        """
        self._recipe = recipe
        self._greeting = greeting
        self._mutant = mutant
        self._topology = topology
        self._profile = profile
        self._transport = transport
        self._gates = gates
        self._emit = emit
        self._process: AdapterProcess | None = None
        self._talk: Conversation | None = None
        self._addresses = JoinAddresses()
        self._waiting: dict[str, int] = {}
        self._started = False
        self.broken = Broken()
        self.killed = False
        """Whether somebody else killed the adapter."""
        self.faults = AdapterLinks(self)
        self.coordinator: CoordinatorHandle | None = None

    # --- life -------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Start the external coordinator and the run; ``addresses`` is final afterwards."""
        if self._topology.coordinator == "external":
            self.coordinator = make_coordinator(
                self._topology, self._profile, self._transport, self._emit
            )
            await self.coordinator.start()
        self._process, greeting = await idle.take(self._recipe)
        if greeting != self._greeting:
            what = "says another hello than before"
            raise self._fault(what, greeting.model_dump_json(exclude_unset=True))
        events = FenceFilter(self._emit)
        self._talk = Conversation(self._process, events, self._gate_waits, self.broken)
        self._talk.begin()
        offered = self._endpoints()
        try:
            result = await self._talk.ask(self._start_line(offered), StartResult, limit_s=ANSWER_S)
        except Refused as refused:
            what = f"could not begin a run: {refused}"
            raise self._fault(what) from refused
        self._started = True
        self._addresses = self._join_addresses(result.addresses or offered)
        self._gates.on_open(self._gate_opened)

    def _endpoints(self) -> Endpoints:
        make, topology = self._transport.endpoint, self._topology
        inside = topology.coordinator == "in-process"
        owner = topology.transport == "handshake-owner"
        return Endpoints(
            handshake=make("handshake") if owner else None,
            input=make("input"),
            output=make("output"),
            coordinator_input=make("coordinator-input") if inside else None,
            coordinator_output=make("coordinator-output") if inside else None,
        )

    def _start_line(self, endpoints: Endpoints) -> Start:
        topology, config = self._topology, self._topology.config
        sizes = sizes_of(topology)
        return Start(
            id=self._talking.number,
            release=self._profile.release,
            mutant=self._mutant,
            mode=topology.transport,
            ranks=tuple(topology.rank_list),
            engine_count=sizes.engine_count,
            engine_start_index=sizes.engine_start_index,
            data_parallel_size=sizes.data_parallel_size,
            coordinator=topology.coordinator,
            coordinator_address=self.coordinator.front_address if self.coordinator else None,
            ready_timeout_s=config.ready_timeout_s or READY_TIMEOUT_S,
            utility_timeout_s=config.utility_timeout_s,
            endpoints=endpoints,
        )

    def _join_addresses(self, said: Endpoints) -> JoinAddresses:
        found = JoinAddresses(**said.model_dump())
        if self.coordinator is not None:
            found = dataclasses.replace(
                found,
                coordinator_input=self.coordinator.back_input_address,
                coordinator_output=self.coordinator.back_output_address,
            )
        try:
            found.check()
        except ValueError as error:
            what = f"reports where engines join, but {error}"
            raise self._fault(what) from error
        return found

    @property
    def addresses(self) -> JoinAddresses:
        """Where the engines join."""
        return self._addresses

    def _fault(self, what: str, line: str = "") -> TargetError:
        """Give the adapter up because of what it said; returns what to raise."""
        if self._process is not None:
            self._process.fail(what, line.encode())
        return self.broken.error or TargetError(f"the adapter {self._greeting.name} {what}")

    @property
    def _talking(self) -> Conversation:
        if self._talk is None:
            msg = "the adapter was not started"
            raise TargetError(msg)
        return self._talk

    async def start(self) -> None:
        """Connect. Raises an error with the name that the client's has."""
        talk = self._talking
        try:
            await talk.ask(Connect(id=talk.number), Nothing)
        except Refused as refused:
            raise _named(refused.name)(refused.message) from refused

    async def shutdown(self, timeout_s: float) -> None:
        """Orderly shutdown, as a step."""
        talk = self._talking
        await talk.ask(Shutdown(id=talk.number, timeout_s=timeout_s), Nothing)

    async def stop(self) -> None:
        """End the run and let go of the process.

        Raises:
            TargetError: the adapter failed at the end, or before that unheard.
        """
        ended = False
        try:
            ended = await self._stop_run()
        finally:
            try:
                self._let_go(patient=ended)
            finally:
                if self.coordinator is not None:
                    await self.coordinator.stop()
        if not self.broken.reported:
            self.broken.check()

    async def _stop_run(self) -> bool:
        """End the run and the conversation; whether the adapter agreed that it ended."""
        talk = self._talk
        if talk is None:
            return False
        ended = False
        try:
            if self._started and self.broken.error is None:
                await talk.ask(Stop(id=talk.number), Nothing, limit_s=STOP_S)
                self.catch_up()  # there is no next line; if there is, it is this run's fault
                ended = True
        except Refused as refused:
            what = f"could not end its run: {refused}"
            raise self._fault(what) from refused
        finally:
            await talk.end()
            self._talk = None
            process = self._process
            if ended and self._greeting.reusable and process is not None and not process.failure:
                idle.give_back(self._recipe, process, self._greeting)
                self._process = None
        return ended

    def _let_go(self, *, patient: bool) -> None:
        """End a process that nobody will use again.

        ``patient``: its run ended in order, so that it can be expected to end by itself.
        """
        process, self._process = self._process, None
        if process is None:
            return
        self.killed = process.killed
        whole = patient and process.failure is None
        if not process.close(patient=patient) and whole:
            msg = (
                f"the adapter {self._greeting.name} did not end when its input did, and was killed"
            )
            raise TargetError(msg)

    def catch_up(self) -> None:
        """Take over what the adapter wrote until now, before something else is recorded."""
        if self._process is not None:
            self._process.catch_up()

    # --- gates ------------------------------------------------------------------------------

    def _gate_opened(self, name: str) -> None:
        wanted = self._can("fault.link") or self._can("op.slow-reader")
        if wanted and self._talk is not None and self.broken.error is None:
            self._talk.send(Open(gate=name))

    def _gate_waits(self, gate: str, change: int) -> None:
        self._gates.count_remote(gate, change)

    async def link(self, step: LinkStep) -> None:
        """Carry out a link step and return when it is in force."""
        talk = self._talking
        line = Link(id=talk.number, **step.model_dump())
        await self._certain(line, Nothing)

    # --- operations -------------------------------------------------------------------------

    def external_id(self, step: CallStep) -> str:
        """The caller's id, with the prefix of the adapter's API."""
        return self._greeting.id_prefix + (step.request_id or step.id)

    async def generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        """Run one generation. Cancelling the task = the caller leaves."""
        given = step.model_dump(exclude={"id", "request_id", "frontend"})
        line = Call(op=step.id, request_id=step.request_id or step.id, **given)
        ended = await self._operation(line, on_output)
        return CallResult(
            ended.outcome,
            finish=ended.finish,
            error=ended.error,
            message=ended.message,
            kv_transfer_params=ended.kv_transfer_params,
            status=ended.status,
            text=ended.text,
        )

    async def utility(self, step: UtilityStep) -> UtilityResult:
        """Run one utility call."""
        given = step.model_dump(exclude={"id", "args", "frontend"})
        ended = await self._operation(
            Utility(op=step.id, args=tuple(to_plain(arg) for arg in step.args), **given), None
        )
        try:
            value = from_plain(ended.value)
        except ValueError as error:
            what = f"ended {step.id!r} with a strange value: {error}"
            raise self._fault(what) from error
        return UtilityResult(ended.outcome, value=value, error=ended.error, message=ended.message)

    async def _operation(self, line: Call | Utility, on_output: OnOutput | None) -> Ended:
        talk = self._talking
        answer = talk.open(line.op, on_output)
        try:
            talk.send(line)
            ended = await answer.wait()
        except asyncio.CancelledError as gone:
            if not answer.settled and self.broken.error is None:
                talk.silence(line.op)
                await self._leave(line.op, answer, step=gone.args[0] if gone.args else None)
            raise
        if ended.outcome == "cancelled":
            what = f"says that {line.op!r} was cancelled, by nobody"
            raise self._fault(what)
        return ended

    async def _leave(self, op: str, answer: Answer[Ended], *, step: str | None) -> None:
        """Say that the caller left, to who understands it; others end what is open at ``stop``.

        ``step``: the verb of the step that asks for it, whose time limit then is the limit: a
        client may hang at that. Else it is the end of the run, for which the adapter answers.
        """
        line: Cancel | Drop
        if step == "drop" and self._can("op.drop"):
            line = Drop(op=op)
        elif self._can("op.cancel"):
            line = Cancel(op=op)
        else:
            return
        try:
            self._talking.send(line)
            limit_s = LEAVE_S if step is None else None
            await with_deadline(answer.wait(), limit_s, name=f"adapter: {line.do}")
        except DeadlineExceeded:
            self._fault(f"did not say 'ended' of {op!r} within {LEAVE_S:g} s of {line.do!r}")
        finally:
            # Cancelled in mid-wait: nobody waits on. What it would still say of this operation
            # must not reach the next run.
            if not answer.settled and self.broken.error is None:
                self._fault(
                    f"had not said 'ended' of {op!r}, after {line.do!r}, when its run ended"
                )

    async def abort(self, request_ids: list[str]) -> None:
        """Abort by external request id."""
        talk = self._talking
        try:
            await talk.ask(Abort(id=talk.number, request_ids=tuple(request_ids)), Nothing)
        except Refused as refused:
            msg = f"abort failed: {refused}"
            raise TargetError(msg) from refused

    # --- observations -----------------------------------------------------------------------

    async def _certain(self, command: Any, result: Any) -> Any:
        """Ask what needs nobody but the adapter; an error is a fault of its own."""
        try:
            return await self._talking.ask(command, result, limit_s=ANSWER_S)
        except Refused as refused:
            what = f"refuses {command.do!r}: {refused}"
            raise self._fault(what) from refused

    def _can(self, capability: str) -> bool:
        return capability in self._greeting.capabilities

    async def health(self) -> Health | None:
        """Health and, where it shows, its sticky error; ``None`` if it cannot be seen."""
        if not self._can("see.health"):
            return None
        found: HealthResult = await self._certain(AskHealth(id=self._talking.number), HealthResult)
        return Health(found.healthy, found.error, found.message)

    async def snapshot(self, label: str) -> Snapshot | None:
        """Registries, ``None`` if they cannot be seen."""
        if not self._can("see.registries"):
            return None
        command = TakeSnapshot(id=self._talking.number)
        found: SnapshotResult = await self._certain(command, SnapshotResult)
        return Snapshot(
            label=label, **{name: getattr(found, name) for name in type(found).model_fields}
        )

    async def server_info(self) -> Mapping[str, Any]:
        """Sizes of the deployment."""
        command = AskServerInfo(id=self._talking.number)
        found: ServerInfoResult = await self._certain(command, ServerInfoResult)
        return found.info

    async def fence(self, live_ranks: tuple[int, ...]) -> None:
        """Return once everything sent before, and everything written before, was acted on."""
        talk = self._talking
        try:
            await talk.ask(Fence(id=talk.number, ranks=live_ranks), Nothing)
        except Refused as refused:
            msg = f"the fence failed: {refused}"
            raise TargetError(msg) from refused
