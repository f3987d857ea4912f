"""Invariant lockstep.resume-runs-what-waits."""

from __future__ import annotations

from harness.invariants._adds import AddBook, Episode
from harness.invariants._lockstep import UNPAUSED, LockstepInvariant
from harness.invariants._run import event_types
from harness.invariants.base import Kind, RunContext
from harness.trace.events import Healed, Record
from mock_engines.events import RankMoved


class ResumeRunsWhatWaits(LockstepInvariant):
    """What waited for a resume runs.

    Statement: Once all is healed, every request that a rank had when it was resumed has ended by
        the end of the run, unless the rank was told to pause again.
    Reason: A request that is queued while the engines are paused sends no wake-up. If the resume
        does not look for it, its caller waits until somebody else's request happens to come.
    Source: vLLM ``v1/engine/core.py`` (``resume_scheduler``: its exchange tells who has work);
        vllm#55229; protocol page, section 14.
    Limits: Engines that step together only. Not judged where a rank died or stands still;
        left out is what the scenario leaves open.
    """

    id = "lockstep.resume-runs-what-waits"
    kind = Kind.EVENTUALLY
    handles = event_types((RankMoved, Healed))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.adds = context.shelf.book(AddBook)
        self._pauses: dict[int, str] = {}
        self._waited: dict[int, list[tuple[Episode, Record]]] = {}
        self._healed = False

    def see(self, record: Record) -> None:
        """Note what waits at a resume; forget it at the next pause."""
        event = record.event
        match event:
            case RankMoved():
                before = self._pauses.get(event.engine, UNPAUSED)
                self._pauses[event.engine] = event.pause
                if before != UNPAUSED and event.pause == UNPAUSED:
                    self._resumed(record, event.engine)
                elif before == UNPAUSED and event.pause != UNPAUSED:
                    self._waited.pop(event.engine, None)
            case _:
                assert isinstance(event, Healed)
                self._healed = True

    def _resumed(self, record: Record, rank: int) -> None:
        waiting = [each for each in self.adds.episodes if each.engine == rank and each.open]
        self.exercised += len(waiting)
        self._waited.setdefault(rank, []).extend((each, record) for each in waiting)

    def at_rest(self) -> None:
        """Look for what still waits."""
        if not self.group.complete:
            return
        names = self.open_on_purpose
        lost = [
            (episode, record)
            for found in self._waited.values()
            for episode, record in found
            if episode.open and not names & {episode.event.request_id, episode.event.external_id}
        ]
        if not lost:
            return
        if not self._healed or self.ended is None:
            self.unjudged = "the run was not healed"
            return
        episode, record = lost[0]
        name, engine = episode.event.request_id, episode.engine
        self.violate(
            f"engine {engine} was resumed, and {name}, which waited there, never ended",
            expected=f"{name} ended by event {self.ended.seq}",
            seen=f"{name} still there ({len(lost)} such requests)",
            witness=(episode.add, record, self.ended),
        )
