"""Invariant wave.ends-when-idle."""

from __future__ import annotations

from collections import Counter

from harness.invariants._adds import AddBook, Episode
from harness.invariants._run import RunInvariant, event_types
from harness.invariants._waves import WaveBook, restarts_coordinator
from harness.invariants.base import Kind, RunContext
from harness.trace.events import CallEnded, CallStarted, Record, StepBegan
from mock_engines.behaviours.model import Action
from mock_engines.events import (
    EngineDied,
    EngineJoined,
    EngineStalled,
    UtilityApplied,
    WaveNoticeSent,
)


class EndsWhenIdle(RunInvariant):
    """A wave that began for a request ends, once, when no engine has work any more.

    Statement: By the final fence every request that an engine took up and that is over is
        followed by a wave_complete, and no wave is reported complete twice.
    Reason: Ranks step together. A peer that was not woken blocks the one that has the request in
        a collective; a wave that is reported complete too early, or twice, puts the coordinator
        ahead of its engines.
    Source: vllm#51983, #54762, #45043 (lost wake-ups), #45223; protocol page, section 13; vLLM
        ``v1/engine/core.py`` (the exchange in which a wave ends).
    Limits: Simulation only, where nothing is under way at a fence. Left out: topologies without
        a coordinator or with scripted waves, engines that die, stall, join in a way of their own
        or change their state by a utility, rules and steps that send or swallow wave messages,
        requests that no engine takes up, calls whose ADD never left (the engine that their
        first request leaves out then sleeps on), an external coordinator that is
        restarted or speaks by script, and links to a coordinator that fail.
    """

    id = "wave.ends-when-idle"
    kind = Kind.EVENTUALLY
    needs = frozenset({"see.wire", "world.virtual-time"})
    handles = event_types(
        (
            *(EngineDied, EngineJoined, EngineStalled, UtilityApplied, WaveNoticeSent),
            *(StepBegan, CallStarted, CallEnded),
        )
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.adds = context.shelf.book(AddBook)
        self.waves = context.shelf.book(WaveBook, context)
        self._joined: set[int] = set()
        self._names: dict[str, str] = {}
        self._left: set[str] = set()
        self._odd = not context.once(_is_plain)

    def see(self, record: Record) -> None:
        """Note what takes an engine out of the exchange; count completions."""
        event = record.event
        if event.__class__ is StepBegan:  # first: most of them are
            self._odd = self._odd or restarts_coordinator(self.context, record)
            return
        match event:
            case EngineJoined(coordinator=True, engine=engine):
                self._joined.add(engine)
            case EngineDied() | EngineStalled() | UtilityApplied():
                self._odd = True
            case CallStarted(op=op, external_id=name):
                self._names[op] = name
            case CallEnded(op=op, outcome="cancelled" | "failed"):
                self._left.add(self._names.get(op, op))
            case WaveNoticeSent(notice="complete", wave=wave) if not self._odd:
                earlier = self.waves.completes[wave]
                if len(earlier) > 1:
                    self.violate(
                        f"wave {wave} was reported complete {len(earlier)} times",
                        expected=f"one wave_complete {wave}",
                        seen=f"{len(earlier)} of them, the last at event {record.seq}",
                        witness=earlier,
                    )
            case _:
                pass

    def at_rest(self) -> None:
        """Look for a request behind which no wave ended."""
        if self._odd or self.waves.opaque or self.waves.rejoined or self.fenced is None:
            return
        if not self.state.sound or self._joined != {*self.context.ranks}:
            return
        if any(episode.open for episode in self.adds.episodes):
            return
        arrived = Counter(
            each.event.external_id or each.event.request_id for each in self.adds.episodes
        )
        begun = Counter(self._names.values())
        if any(arrived[name] < begun[name] for name in self._left):
            return
        completes = [each.seq for records in self.waves.completes.values() for each in records]
        last = max(completes, default=-1)
        for episode in self.adds.episodes:
            self.exercised += 1
            over = episode.over
            assert over is not None
            if over.seq > last:
                self._lost(episode, over, last)

    def _lost(self, episode: Episode, over: Record, last: int) -> None:
        engine, name = episode.engine, episode.event.request_id
        self.violate(
            f"the wave in which engine {engine} ran {name} never ended",
            expected=f"a wave_complete after event {over.seq}",
            seen="no wave_complete" if last < 0 else f"the last wave_complete at event {last}",
            witness=(episode.add, over),
        )


def _is_plain(context: RunContext) -> bool:
    """Whether engines follow the rules of waves and hear their coordinator."""
    scenario = context.scenario
    topology = scenario.topology
    if topology.coordinator == "none" or topology.waves != "auto":
        return False
    for spec in scenario.engines:
        if spec.join.model_fields_set - {"gate"}:
            return False
        for rule in spec.rules:
            if rule.on == "start_wave" or any(_is_odd(action) for action in rule.do):
                return False
    for step in scenario.steps:
        if step.engine is not None and any(_is_odd(action) for action in step.engine.do):
            return False
        spoken = step.coordinator
        if spoken is not None and (spoken.publish is not None or spoken.publish_raw is not None):
            return False
        link = step.link
        if link is not None and link.fail is not None and link.engine == "coordinator":
            return False
    return True


def _is_odd(action: Action) -> bool:
    """Whether an action speaks of waves by script, or lets an engine have no work, or never end it."""
    return bool(
        action.wave_complete is not None
        or action.start_wave is not None
        or action.flood is not None
        or action.drop is not None
        or action.raw is not None
        or action.output is not None
        or action.finish_only is not None
        or action.hang is True
    )
