"""Follows which engines take part, by what is seen on the wire and told by engines. No invariant."""

from __future__ import annotations

import ast
import functools
from enum import Enum
from typing import Any, ClassVar

from client.protocol.ids import LEAVES_GROUP
from harness.invariants._run import EventTypes, RunInvariant
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import (
    EngineJoined,
    EngineRemoved,
    GroupSwitched,
    UtilitySeen,
)


class Stage(Enum):
    """Where an engine is in its membership."""

    NEW = "started, and not resumed yet"
    MEMBER = "a member"
    LEAVING = "told to leave"


class MemberBook:
    """Engines that come and go.

    Attributes:
        stages: rank → stage, and the record since when; engines that are there from the start
            have no record.
    """

    HANDLES: ClassVar[EventTypes] = (EngineJoined, EngineRemoved, GroupSwitched, UtilitySeen)

    def __init__(self, context: RunContext) -> None:
        self.stages: dict[int, tuple[Stage, Record | None]] = dict.fromkeys(
            context.ranks, (Stage.MEMBER, None)
        )
        self._switched: set[int] = set()

    def feed(self, record: Record) -> None:
        """Take one record."""
        event = record.event
        match event:
            case EngineJoined() if event.engine not in self.stages:
                self.stages[event.engine] = (Stage.NEW, record)
            case EngineRemoved():
                self.stages.pop(event.engine, None)
                self._switched.discard(event.engine)
            case GroupSwitched():
                self._switched |= {*event.ranks} - {*event.before}
            case UtilitySeen(method="resume_scheduler") if event.engine in self._switched:
                self._switched.discard(event.engine)
                self.stages[event.engine] = (Stage.MEMBER, record)
            case UtilitySeen(method="reinitialize_distributed") if _leaves(event.args):
                self.stages[event.engine] = (Stage.LEAVING, record)
            case _:
                pass


@functools.lru_cache(maxsize=256)
def _leaves(args: str) -> bool:
    """Whether a rank is told to go. Kept: it is the same in every schedule."""
    try:
        given: Any = ast.literal_eval(args)
    except (ValueError, SyntaxError):
        return False
    match given:
        case [{"new_data_parallel_rank": rank}]:
            return bool(rank == LEAVES_GROUP)
        case _:
            return False


class ElasticInvariant(RunInvariant):
    """Base of the invariants on engines that come and go."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.members = context.shelf.book(MemberBook, context)
