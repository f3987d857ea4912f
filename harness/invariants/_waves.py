"""Follows the waves that were announced to anybody. Not an invariant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from client.events import CoordinatorPublished, CoordinatorStateApplied
from client.protocol.ids import STALE_PROBE_INDEX
from harness.invariants._run import EventTypes
from harness.invariants.base import RunContext
from harness.scenario.model import CoordinatorStep
from harness.trace.events import Record, StepBegan
from mock_engines.events import EngineJoined, EngineRemoved, RawSent, WaveNoticeSent


def coordinator_step(context: RunContext, record: Record) -> CoordinatorStep | None:
    """The ``coordinator`` step that begins with this record, if it is one."""
    event = record.event
    if event.__class__ is not StepBegan or event.verb != "coordinator":
        return None
    steps = context.scenario.steps
    return steps[event.index].coordinator if event.index < len(steps) else None


def restarts_coordinator(context: RunContext, record: Record) -> bool:
    """Whether the external coordinator is stopped or started now; a new one begins at wave 0."""
    step = coordinator_step(context, record)
    return step is not None and (step.stop or step.start)


def is_probe(context: RunContext, exclude: int | None) -> bool:
    """Whether a broadcast answers a stale probe of this scenario's flood.

    A probe names a wave that its sender has reported complete; it is told by its engine index,
    unless an engine of the run has that rank.
    """
    if exclude != STALE_PROBE_INDEX or STALE_PROBE_INDEX in context.ranks:
        return False
    dumped = context.scenario.model_dump(exclude_unset=True)
    return any(flood.get("stale_probes", False) for flood in scripted(dumped, "flood"))


def scripted(part: Any, key: str) -> Iterator[Any]:
    """Every value that is set under ``key``, anywhere in a dumped scenario."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == key and value is not None:
                yield value
            yield from scripted(value, key)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from scripted(value, key)


class WaveBook:
    """Which waves somebody announced.

    Attributes:
        highest: the highest wave that anybody can know: w of a start_wave, w + 1 of a
            wave_complete, w of a publish, the end of a scripted flood; 0 at the start.
        by: the record that announced it.
        opaque: scripted bytes may have announced anything.
        starts, completes: wave → the notices of it, in order.
        rejoined: an engine joined twice; a coordinator may repeat itself for it.
    """

    HANDLES: ClassVar[EventTypes] = (
        WaveNoticeSent,
        CoordinatorPublished,
        CoordinatorStateApplied,
        RawSent,
        StepBegan,
        EngineJoined,
        EngineRemoved,
    )

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._joined: set[int] = set()
        self.highest = self._flooded(context)
        self.by: Record | None = None
        self.opaque = False
        self.starts: dict[int, list[Record]] = {}
        self.completes: dict[int, list[Record]] = {}
        self.rejoined = False

    @staticmethod
    def _flooded(context: RunContext) -> int:
        """A flood against a black box is too long to show each of its notices."""
        if "see.client-events" in context.capabilities:
            return 0
        floods = scripted(context.scenario.model_dump(), "flood")
        return max((f["start"] + (f["count_real"] or f["count"]) for f in floods), default=0)

    def feed(self, record: Record) -> None:
        """Take one record."""
        event = record.event
        if event.__class__ is StepBegan:  # first: most of them are
            if event.verb == "coordinator":
                self._step(record)
            return
        match event:
            case WaveNoticeSent(notice="start"):
                self.starts.setdefault(event.wave, []).append(record)
                self._announce(event.wave, record)
            case WaveNoticeSent():
                self.completes.setdefault(event.wave, []).append(record)
                self._announce(event.wave + 1, record)
            case CoordinatorPublished() | CoordinatorStateApplied():
                self._announce(event.wave, record)
            case RawSent(path="coordinator"):
                self.opaque = True
            case EngineJoined():
                self.rejoined = self.rejoined or event.engine in self._joined
                self._joined.add(event.engine)
            case EngineRemoved():
                self._joined.discard(event.engine)
            case _:
                pass

    def _step(self, record: Record) -> None:
        step = coordinator_step(self._context, record)
        if step is None:
            return
        if step.publish is not None and len(step.publish) > 1:
            wave = step.publish[1]
            if isinstance(wave, int):
                self._announce(wave, record)
        if step.publish_raw is not None:
            self.opaque = True

    def _announce(self, wave: int, record: Record) -> None:
        if wave > self.highest:
            self.highest, self.by = wave, record
