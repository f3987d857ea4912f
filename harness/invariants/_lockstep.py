"""Follows ranks that step together, by what their loops tell. Not an invariant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from packaging.version import Version

from harness.invariants._run import EventTypes, RunInvariant
from harness.invariants.base import RunContext
from harness.trace.events import Healed, Record
from mock_engines.events import (
    EngineDied,
    EngineIdle,
    EngineJoined,
    EngineResumed,
    EngineStalled,
    ExchangeHeld,
    GroupSwitched,
    RankMoved,
    RanksSpin,
    RanksStuck,
)

PAUSE_METHODS = ("pause_scheduler", "pause_generation", "sleep")
RESUME_METHODS = ("resume_scheduler", "wake_up")
UNPAUSED = "none"


def engine_release(context: RunContext) -> Version:
    """The release of the engines, which need not be the frontend's."""
    named = context.scenario.topology.engine_release
    return context.release if named is None else Version(named)


def named(ranks: Iterable[int]) -> str:
    """``engine 1``, or ``engines 1, 2``; the first eight."""
    each = list(ranks)
    text = ", ".join(str(rank) for rank in each[:8]) + (" …" if len(each) > 8 else "")
    return f"engine{'' if len(each) == 1 else 's'} {text}"


def wait_s(ranks: Sequence[int]) -> str:
    """``waits`` or ``wait``, as the number of ranks wants it."""
    return "waits" if len(ranks) == 1 else "wait"


class GroupBook:
    """The ranks of a group, and what the last fence said of them.

    A fence looks more than once, and what it finds first may only be under way: whoever is stuck
    counts by the last look.

    Attributes:
        states: rank → its last state; ``moved``: the record of it.
        dead, stalled: rank → since when; both end.
        joins: rank → how often it joined.
        exchange: the last exchange; ``consensus``: the last one in which all were told to pause.
        idle: rank → requests that it had at the last look; only those that could answer.
        stuck: what hung at the last look, or for good; ``spin``: who stepped without end.
        looked: a look came since all was healed.
    """

    HANDLES: ClassVar[EventTypes] = (
        *(EngineJoined, EngineDied, EngineStalled, EngineResumed, EngineIdle),
        *(RankMoved, ExchangeHeld, RanksStuck, RanksSpin, Healed, GroupSwitched),
    )

    def __init__(self, context: RunContext) -> None:
        self._ranks = context.ranks
        self._coming: set[int] = set()
        self._switches: list[Record] = []
        self.states: dict[int, RankMoved] = {}
        self.moved: dict[int, Record] = {}
        self.dead: dict[int, Record] = {}
        self.stalled: dict[int, Record] = {}
        self.joins: dict[int, int] = {}
        self.exchange: Record | None = None
        self.consensus: Record | None = None
        self.idle: dict[int, tuple[str, ...]] = {}
        self.stuck: list[Record] = []
        self.spin: Record | None = None
        self.looked = False
        self._healed = False
        self._told = False
        self._settled = False

    def joined_by(self, rank: int) -> Record | None:
        """The change of the group's size that made ``rank`` a member, if one did."""
        for record in reversed(self._switches):
            event = record.event
            assert isinstance(event, GroupSwitched)
            if rank in event.ranks and rank not in event.before:
                return record
        return None

    @property
    def complete(self) -> bool:
        """Every rank has joined, lives and is not stalled, and none waits to become one."""
        if self.dead or self.stalled or self._coming:
            return False
        return all(r in self.states for r in self._ranks)

    @property
    def returned(self) -> bool:
        """A rank joined again: its wave is another one than its peers'."""
        return any(count > 1 for count in self.joins.values())

    @property
    def settled(self) -> bool:
        """A look was the last thing that happened: nothing that was sent is under way."""
        return self._settled

    @property
    def at_rest(self) -> bool:
        """All are there, none runs, and none was stuck when it was looked last."""
        nobody_runs = not any(state.running for state in self.states.values())
        return self.complete and nobody_runs and not self.stuck and self.spin is None

    def feed(self, record: Record) -> None:
        """Take one record."""
        event = record.event
        if not isinstance(event, (RanksStuck, RanksSpin, Healed)):
            self._settled = isinstance(event, EngineIdle)
        match event:
            case RankMoved():
                self.states[event.engine] = event
                self.moved[event.engine] = record
            case ExchangeHeld():
                self.exchange = record
                if len(event.pausing) == len(event.waves):
                    self.consensus = record
            case EngineIdle():
                self._look(event)
            case RanksStuck():
                self._told = True
                self.stuck.append(record)
            case RanksSpin():
                self._told = True
                self.spin = record
            case Healed():
                self._healed = True
            case GroupSwitched():
                self._switches.append(record)
                self._switch(event)
            case _:
                self._life(record, event)

    def _switch(self, event: GroupSwitched) -> None:
        """The group is another one; who left it may come back as somebody new."""
        for rank in {*event.before} - {*event.ranks}:
            for book in (self.states, self.moved, self.dead, self.stalled, self.joins, self.idle):
                book.pop(rank, None)
        self._ranks = event.ranks
        self._coming -= {*event.ranks}

    def _look(self, event: EngineIdle) -> None:
        """An engine answers a look: a new one, if it has answered before, or all have."""
        if self._told or event.engine in self.idle:
            self.idle.clear()
            self.stuck.clear()
            self.spin, self._told = None, False
        self.idle[event.engine] = event.requests
        self.looked = self.looked or self._healed

    def _life(self, record: Record, event: object) -> None:
        match event:
            case EngineJoined():
                self.joins[event.engine] = self.joins.get(event.engine, 0) + 1
                self.dead.pop(event.engine, None)
                if event.engine not in self._ranks:
                    self._coming.add(event.engine)
            case EngineDied():
                self.dead[event.engine] = record
            case EngineStalled():
                self.stalled[event.engine] = record
            case _:
                assert isinstance(event, EngineResumed)
                self.stalled.pop(event.engine, None)


class LockstepInvariant(RunInvariant):
    """Base of the invariants on engines that step together."""

    for_waves = "lockstep"

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.group = context.shelf.book(GroupBook, context)
