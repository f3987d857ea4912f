"""Invariant wave.add-stamp-not-ahead."""

from __future__ import annotations

from harness.invariants._run import RunInvariant, event_types
from harness.invariants._waves import WaveBook
from harness.invariants.base import RunContext
from harness.trace.events import Fenced, Record
from mock_engines.events import AddSeen


class AddStampNotAhead(RunInvariant):
    """No request is stamped with a wave that nobody announced.

    Statement: For every ADD, ``current_wave`` is at most the highest wave that was announced:
        w of a start_wave, w + 1 of a wave_complete, w of a publish, 0 at the start.
    Reason: An engine takes over a higher wave from a request; its peers stay behind and ignore
        the wake-ups of this engine's wave, or wait in another collective.
    Source: protocol page, sections 11, 13 (first row of the table) and 22 (3).
    Limits: A stamp that is too low is no fault by itself (the request is then stale). Scripted
        bytes on the coordinator socket end the judgement.
    """

    id = "wave.add-stamp-not-ahead"
    handles = event_types((AddSeen, Fenced))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.waves = context.shelf.book(WaveBook, context)
        self._coordinated = context.scenario.topology.coordinator != "none"
        self._ahead: list[tuple[int, Record]] = []

    def see(self, record: Record) -> None:
        """Collect stamps; those that are ahead wait until events of all processes are in."""
        event = record.event
        if isinstance(event, AddSeen):
            self.exercised += self._coordinated
            if event.wave > self.waves.highest:
                self._ahead.append((event.wave, record))
        else:
            assert isinstance(event, Fenced)
            self._look()

    def at_rest(self) -> None:
        """Look a last time."""
        self._look()

    def _look(self) -> None:
        waiting, self._ahead = self._ahead, []
        for wave, record in waiting:
            if wave > self.waves.highest and not self.waves.opaque:
                by = self.waves.by
                self.violate(
                    f"a request was stamped with wave {wave}, which nobody announced",
                    expected=f"current_wave <= {self.waves.highest}",
                    seen=f"current_wave == {wave} at event {record.seq}",
                    witness=(record,) if by is None else (by, record),
                )
