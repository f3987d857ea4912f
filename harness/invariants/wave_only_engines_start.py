"""Invariant wave.only-engines-start."""

from __future__ import annotations

from harness.invariants._run import RunInvariant, event_types
from harness.invariants._waves import WaveBook
from harness.invariants.base import RunContext
from harness.trace.events import Fenced, Record
from mock_engines.events import StartWaveSeen


class OnlyEnginesStart(RunInvariant):
    """Since 0.33 no wave is started but by an engine.

    Statement: Every START_DP_WAVE carries a wave that some engine announced with start_wave, and
        leaves an engine out.
    Reason: Engines of this release start the wave of a request themselves; a second wake-up by
        the frontend may hit a group that is being paused.
    Source: vllm release 0.33.0 (frontends no longer start waves); protocol page, sections 6.2,
        11.2 and 22 (1), (2).
    Limits: Releases from 0.33. Scripted bytes on the coordinator socket end the judgement. How
        often a wave is broadcast is judged by ``wave.engine-start-rebroadcast-once``.
    """

    id = "wave.only-engines-start"
    profiles = ">=0.33"
    handles = event_types((StartWaveSeen, Fenced))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.waves = context.shelf.book(WaveBook, context)
        self._unanswered: list[tuple[StartWaveSeen, Record]] = []

    def see(self, record: Record) -> None:
        """Look for the notice; one of another process may be recorded a little later."""
        event = record.event
        if isinstance(event, StartWaveSeen):
            self.exercised += 1
            if event.exclude is None or event.wave not in self.waves.starts:
                self._unanswered.append((event, record))
        else:
            assert isinstance(event, Fenced)
            self._look()

    def at_rest(self) -> None:
        """Look a last time."""
        self._look()

    def _look(self) -> None:
        waiting, self._unanswered = self._unanswered, []
        for event, record in waiting:
            started = event.wave in self.waves.starts
            if self.waves.opaque or (started and event.exclude is not None):
                continue
            seen = "an engine's start_wave" if started else "no start_wave of this wave"
            self.violate(
                f"wave {event.wave} was started by no engine",
                expected=f"start_wave {event.wave} by an engine that the broadcast leaves out",
                seen=f"{seen}, exclude == {event.exclude}",
                witness=(record,),
            )
