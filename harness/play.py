"""One run of one scenario on one target: build, play, judge. No files, no printing."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from client.components import Components
from client.events import (
    ClientEvent,
    UtilityRegistered,
    UtilityReleased,
    UtilityReplyDropped,
    UtilitySettled,
)
from client.protocol.ids import FENCE_METHOD
from client.protocol.profiles import Profile
from client.protocol.transport import Transport
from harness.descriptors import make_room
from harness.driver import Driver, Story
from harness.expectations import VIOLATED
from harness.invariants import discover
from harness.invariants.base import Invariant, RunContext, Verdict
from harness.judgement import Judgement, Known
from harness.scenario.model import Scenario, Topology
from harness.tape import Tape
from harness.targets.base import Emit, Frontend, TargetError
from harness.trace.events import Event, GateWasOpened, Record, RunEnded, StepBegan
from harness.trace.recorder import Recorder
from harness.worlds import World
from mock_engines.cluster import Cluster, JoinAddresses
from mock_engines.gates import Gates
from mock_engines.parts import EngineParts
from mock_engines.process import ProcessFactory
from mock_engines.specs import happens_to_processes

FrontendFactory = Callable[["Setting"], Frontend]
EngineTap = Callable[[int, Transport, JoinAddresses], Transport]
"""Makes the transport of one engine from its rank, the world's transport, and where it joins."""


class Setting(msgspec.Struct, frozen=True):
    """What a frontend is built from."""

    topology: Topology
    profile: Profile
    world: World
    gates: Gates
    emit: Emit
    components: Components
    shutdown_timeout_s: float = 0.0
    """Longest drain time that a step of the scenario asks for, seconds."""


@dataclass(frozen=True, slots=True)
class PlaySpec:
    """Everything that fixes a run but its choices."""

    scenario: Scenario
    profile: Profile
    engine_profile: Profile
    capabilities: frozenset[str]
    components: Components
    make_frontend: FrontendFactory
    black_box: bool
    chapters: tuple[str, ...] | None = None
    """First parts of the ids of the invariants that judge this target; ``None`` = all."""
    tap: EngineTap | None = None
    """Listens at the engines' sockets. All engines then stay in this process: one that is to
    vanish closes its sockets instead."""
    tap_spares_processes: bool = False
    """Engines that need a process of their own have one all the same, and are not listened to."""
    engine_parts: EngineParts = field(default_factory=EngineParts)
    kept: dict[Callable[..., Any], Any] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """What invariants find in the scenario, which is the same in each run; see ``RunContext``.
    Never handed on to a spec that is made of this one."""
    judged: Known = field(default_factory=dict, init=False, compare=False, repr=False)
    """Verdicts of the runs before; never handed on either."""


@dataclass(frozen=True, slots=True)
class Played:
    """Outcome of one run.

    Attributes:
        event_digest: covers the sequence of events, without times.
        broke: what failed in the target or in us after a violation had been seen, which stands.
    """

    story: Story
    verdicts: tuple[Verdict, ...]
    records: list[Record]
    event_digest: int
    broke: str | None = None


FENCE_CALLS_MAX = 1024
"""Calls of fences that are remembered: a reply that comes so late belongs to nobody's fence."""
_OF_A_CALL = (UtilitySettled, UtilityReleased, UtilityReplyDropped)


class FenceFilter:
    """Drops the client events that the harness's own fences cause."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._calls: dict[int, None] = {}

    def __call__(self, event: ClientEvent) -> None:
        """Pass an event on, unless it belongs to a fence."""
        if event.__class__ is UtilityRegistered:
            if event.method == FENCE_METHOD:
                self._calls[event.call_id] = None
                if len(self._calls) > FENCE_CALLS_MAX:
                    del self._calls[next(iter(self._calls))]
                return
        elif self._calls and isinstance(event, _OF_A_CALL) and event.call_id in self._calls:
            return
        self._emit(event)


def play(spec: PlaySpec, world: World, watch: Callable[[Record], None] | None = None) -> Played:
    """Play a scenario once in a fresh world and judge it.

    Args:
        spec: what is played.
        world: where.
        watch: told every event as it happens.

    Raises:
        TargetError: the target or the harness failed before a violation was seen; the run cannot
            be judged.
        KeyboardInterrupt: interrupted; everything of the run has been released.
    """
    scenario = spec.scenario
    context = RunContext(
        scenario=scenario,
        release=spec.profile.version,
        capabilities=spec.capabilities,
        ranks=tuple(scenario.topology.rank_list),
        kept=spec.kept,
    )
    judgement = Judgement(_judging(spec.chapters), context, spec.judged)

    async def main() -> tuple[Recorder, int, Story, _End]:
        trace = Recorder()
        _tell_where_steps_are(trace, world)
        if watch is not None:
            trace.subscribe(watch)
        try:
            driver = await build(spec, world, trace)
            try:
                end = await _to_the_end(driver, trace, judgement)
            except Exception as error:
                driver.check_untouched(error)
                raise
            driver.check_untouched(end.broke)
        finally:
            over = trace.count
            trace.close()
        return trace, over, driver.story, end

    trace, over, story, end = world.run(main)
    records = trace.records
    if end.verdicts is not None:
        return Played(story, end.verdicts, records, trace.digest, end.broke)
    if over == len(records):
        said = judgement.whole(records)
        return Played(story, said.verdicts, records, said.digest, end.broke)
    # What happens while the loop is taken apart is no part of the story.
    said = judgement.whole(records[:over])
    return Played(story, said.verdicts, records, trace.digest, end.broke)


@functools.lru_cache(maxsize=64)
def _judging(chapters: tuple[str, ...] | None) -> tuple[type[Invariant], ...]:
    """The invariants whose ids begin with one of these words; ``None`` = all."""
    return tuple(i for i in discover() if chapters is None or i.id.partition(".")[0] in chapters)


def _tell_where_steps_are(trace: Recorder, world: World) -> None:
    """Let the world know when the start-up is over, and when the scenario is."""
    begun = False

    def look(record: Record) -> None:
        nonlocal begun
        if isinstance(record.event, RunEnded):
            if begun:
                world.steps_end()
        elif not begun:
            begun = True
            world.steps_begin()

    trace.subscribe(look, StepBegan, RunEnded)


class _End(msgspec.Struct, frozen=True):
    """How a run ended in which something was judged.

    Attributes:
        broke: what failed after a violation was seen.
        verdicts: of a run that broke off, at that moment; ``None``: of the whole trace.
    """

    broke: str | None = None
    verdicts: tuple[Verdict, ...] | None = None


async def _to_the_end(driver: Driver, trace: Recorder, judgement: Judgement) -> _End:
    """Play and close.

    Raises:
        TargetError: the target or the harness failed before a violation was seen.
    """
    broke: str | None = None
    verdicts: tuple[Verdict, ...] | None = None
    try:
        await driver.play()
    except BaseException as error:
        so_far = tuple(trace.records)
        if not isinstance(error, TargetError) or not (
            _broke_a_step(driver.story, cut=True) or judgement.violated(so_far)
        ):
            await driver.close()
            raise
        # Before the end of all: that may go wrong through the failure alone.
        broke, verdicts = str(error), judgement.cut(so_far)
    before = trace.count
    seen = broke is not None or _broke_a_step(driver.story, cut=False)
    try:
        await driver.close()
    except TargetError as error:
        if not seen and not judgement.violated(tuple(trace.records[:before])):
            raise
        # The first failure tells more; a later one is mostly its consequence.
        broke = broke or str(error)
    return _End(broke, verdicts)


def _broke_a_step(story: Story, *, cut: bool) -> bool:
    """Whether the expectation of a step was violated so far.

    ``cut``: the run broke off. A step that did not come to its end may be what that did, and is
    no evidence then.
    """
    results = story.results[:-1] if cut and story.stuck else story.results
    return any(result.outcome.status == VIOLATED for result in results)


def child_ranks(scenario: Scenario) -> frozenset[int]:
    """Ranks that a step lets vanish or stall: on real sockets they run as child processes."""
    found: set[int] = set()
    for step in scenario.steps:
        if step.engine is None or not happens_to_processes(step.engine.do):
            continue
        named = step.engine.engine
        if named == "all":
            found.update(scenario.topology.rank_list)
        else:
            found.update([named] if isinstance(named, int) else named)
    return frozenset(found)


async def build(spec: PlaySpec, world: World, trace: Recorder) -> Driver:
    """Make gates, frontend, engines and driver for one run, in the running loop."""
    scenario = spec.scenario
    if not world.virtual:
        make_room(scenario)
    gates = Gates()

    catch_up: Callable[[], None] | None = None

    def told(event: Event) -> None:
        # What a frontend in a process of its own said before this must stand before it.
        if catch_up is not None:
            catch_up()
        trace.emit(event)

    # In simulation there is no other process, and one call less for each event.
    emit = cast("Emit", trace.emit) if world.virtual else told
    gates.on_open(lambda name: emit(GateWasOpened(name)))
    setting = Setting(
        topology=scenario.topology,
        profile=spec.profile,
        world=world,
        gates=gates,
        emit=emit,
        components=spec.components,
        shutdown_timeout_s=max(
            (step.shutdown.timeout_s for step in scenario.steps if step.shutdown is not None),
            default=0.0,
        ),
    )

    def engine_failed(error: BaseException) -> None:
        driver.engine_failed(error)

    frontend = spec.make_frontend(setting)
    catch_up = getattr(frontend, "catch_up", None)
    try:
        await frontend.prepare()
        tap, addresses = spec.tap, frontend.addresses
        cluster = Cluster(
            transport=world.transport,
            profile=spec.engine_profile,
            ranks=[*scenario.topology.rank_list, *scenario.topology.later_list],
            later=scenario.topology.later_list,
            elastic=scenario.elastic,
            specs=scenario.engines,
            addresses=addresses,
            waves=scenario.topology.waves,
            pace=scenario.topology.lockstep,
            parts=spec.engine_parts,
            gates=gates,
            observer=emit,
            real_peer=spec.black_box,
            process_factory=(
                None
                if world.virtual or (tap is not None and not spec.tap_spares_processes)
                else ProcessFactory()
            ),
            children=frozenset() if world.virtual else child_ranks(scenario),
            transport_of=(
                None if tap is None else lambda rank: tap(rank, world.transport, addresses)
            ),
            on_failure=engine_failed,
        )
    except BaseException:
        await frontend.stop()
        raise
    driver = Driver(
        scenario=scenario,
        release=spec.profile.version,
        world=world,
        frontend=frontend,
        cluster=cluster,
        gates=gates,
        trace=trace,
        black_box=spec.black_box,
        publishes_seen=(
            "see.publishes" in spec.capabilities and scenario.topology.coordinator == "external"
        ),
    )
    return driver


@functools.lru_cache(maxsize=64)
def _verdicts_as_text(verdicts: tuple[Verdict, ...]) -> str:
    return ",".join([f"{v.invariant}={v.verdict}" for v in verdicts])


def schedule_digest(tape: Tape, played: Played) -> str:
    """Digest of one schedule: its choices, verdicts and event sequence."""
    choices = tape.choices_as_text()
    verdicts = _verdicts_as_text(played.verdicts)
    results = ",".join([f"{r.step}={r.outcome.status}" for r in played.story.results])
    text = f"{choices}|{played.event_digest:08x}|{verdicts}|{results}"
    return hashlib.sha256(text.encode()).hexdigest()
