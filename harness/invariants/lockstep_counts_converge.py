"""Invariant lockstep.counts-converge."""

from __future__ import annotations

from dataclasses import dataclass, field

from client.events import CoordinatorPublished
from harness.invariants._lockstep import UNPAUSED, LockstepInvariant
from harness.invariants._run import event_types
from harness.invariants._waves import coordinator_step
from harness.invariants.base import Kind, RunContext
from harness.trace.events import Fenced, Record, Snapshot, StepBegan
from mock_engines.events import EngineJoined, GroupSwitched, StatsSent

Load = tuple[int, int]
"""Requests that run, and that wait."""
NOTHING: Load = (0, 0)
SETTLED_AFTER = 2
"""Publishes after which nothing of an older step is left in what is published."""


@dataclass(slots=True)
class _Reports:
    """What one engine reported. ``place``: the report that a publish showed last, -1 = none."""

    sent: list[tuple[Load, Record]] = field(default_factory=list)
    place: int = -1

    @property
    def last(self) -> Load:
        return self.sent[-1][0] if self.sent else NOTHING


class CountsConverge(LockstepInvariant):
    """Load that is told becomes the load that there is.

    Statement: Whenever a fence finds all ranks at rest, the last counts that each unpaused one
        reported add up to the requests that it has, and what a frontend whose registry is seen has
        in flight at a rank is as many as the rank has; and what a coordinator publishes of an engine are counts that this
        engine reported, never older ones than before, and once two publishes have come without
        another report, the last ones.
    Reason: Requests go where load is believed to be low. A count that stays wrong draws all of them
        to one engine, or keeps them away from it.
    Source: vLLM ``v1/engine/core.py`` (``_maybe_publish_request_counts``),
        ``v1/engine/coordinator.py``; vllm#52936, #49204; protocol page, sections 12 and 15.
    Limits: Engines that step together only. A rank that is paused and idle reports nothing that is
        added to its queue, as vLLM's does, so its counts are not judged. What is published is judged of the external
        coordinator, which is ours, and its delay in virtual time only; not where it speaks by
        script or is restarted. A rank that joined again ends the judgement.
    """

    id = "lockstep.counts-converge"
    kind = Kind.EVENTUALLY
    handles = event_types(
        (
            *(StatsSent, CoordinatorPublished, Snapshot, StepBegan, EngineJoined, Fenced),
            GroupSwitched,
        )
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        topology = context.scenario.topology
        self._published = topology.coordinator == "external"
        self._timed = "world.virtual-time" in context.capabilities
        self._reports = {rank: _Reports() for rank in context.ranks}
        self._last_sent_us = -1
        self._publishes = 0
        self._snapshot: Record | None = None

    def see(self, record: Record) -> None:
        """Keep reports; judge publishes, and fences."""
        event = record.event
        match event:
            case StatsSent(path="coordinator") if event.engine in self._reports:
                load = (event.running, event.waiting)
                self._reports[event.engine].sent.append((load, record))
                self._last_sent_us, self._publishes = record.time_us, 0
            case GroupSwitched():
                for rank in {*event.before, *event.ranks}:
                    if rank not in event.before or rank not in event.ranks:
                        self._reports[rank] = _Reports()
            case CoordinatorPublished() if event.counts is not None:
                self._publish(record, event.counts)
            case StepBegan():
                spoken = coordinator_step(self.context, record) is not None
                held = event.verb == "link"
                self._published = self._published and not spoken and not held
            case Snapshot():
                self._snapshot = record
            case Fenced():
                self._rest(record)
            case _:
                pass

    def _publish(self, record: Record, counts: tuple[tuple[float, ...], ...]) -> None:
        if not self._published or self.group.returned:
            return
        if self._timed and record.time_us > self._last_sent_us:
            self._publishes += 1
        settled = self._publishes >= SETTLED_AFTER
        for rank, reports in self._reports.items():
            if rank >= len(counts) or not reports.sent:
                continue
            waiting, running = (int(each) for each in counts[rank][:2])
            self._shown(record, rank, (running, waiting), settled=settled)

    def _shown(self, record: Record, rank: int, load: Load, *, settled: bool) -> None:
        reports = self._reports[rank]
        self.exercised += 1
        last = reports.sent[-1]
        if settled and load != last[0]:
            self.violate(
                f"the coordinator keeps publishing old counts of engine {rank}",
                expected=f"engine {rank}: {_text(last[0])}, as it reported at event {last[1].seq}",
                seen=f"engine {rank}: {_text(load)} at event {record.seq}",
                witness=(last[1], record),
            )
            return
        if reports.place < 0 and load == NOTHING:
            return
        start = max(reports.place, 0)
        for place, (sent, _) in enumerate(reports.sent[start:], start):
            if sent == load:
                reports.place = place
                return
        shown = reports.sent[start][1]
        self.violate(
            f"the coordinator published counts that engine {rank} did not report since",
            expected=f"counts that engine {rank} reported at event {shown.seq} or later",
            seen=f"engine {rank}: {_text(load)} at event {record.seq}",
            witness=(shown, record),
        )

    def _rest(self, record: Record) -> None:
        group, shot = self.group, self._snapshot
        self._snapshot = None
        if group.returned or not group.at_rest:
            return
        for rank, requests in sorted(group.idle.items()):
            reports = self._reports.get(rank)
            if reports is None or group.states[rank].pause != UNPAUSED:
                continue
            if reports.sent:
                self.exercised += 1
            if sum(reports.last) != len(requests):
                self._wrong(record, rank, reports, requests)
        if shot is not None and isinstance(shot.event, Snapshot) and self.state.sound:
            self._in_flight(record, shot, shot.event)

    def _wrong(
        self, record: Record, rank: int, reports: _Reports, requests: tuple[str, ...]
    ) -> None:
        by = reports.sent[-1][1] if reports.sent else None
        when = "" if by is None else f" (event {by.seq})"
        self.violate(
            f"engine {rank} is at rest, and the counts that it told are not what it has",
            expected=f"running + waiting == {len(requests)}",
            seen=f"{_text(reports.last)}{when}",
            witness=(record,) if by is None else (by, record),
        )

    def _in_flight(self, record: Record, shot: Record, event: Snapshot) -> None:
        if self.context.scenario.topology.frontends > 1:
            return
        for rank, load in event.loads:
            requests = self.group.idle.get(rank)
            if requests is not None and load != len(requests):
                self.violate(
                    f"at rest the frontend counts other requests at engine {rank} than it has",
                    expected=f"{len(requests)} in flight at engine {rank}",
                    seen=f"{load} in flight at engine {rank}",
                    witness=(shot, record),
                )


def _text(load: Load) -> str:
    running, waiting = load
    return f"{running} running, {waiting} waiting"
