"""Invariant wave.complete-advances-once."""

from __future__ import annotations

from client.events import WaveNoticeHandled
from harness.invariants._run import RunInvariant, event_types
from harness.invariants._waves import WaveBook
from harness.invariants.base import RunContext
from harness.trace.events import Fenced, Record
from mock_engines.events import StartWaveSeen


class CompleteAdvancesOnce(RunInvariant):
    """A wave_complete moves the coordinator to the next wave once; repeats do nothing.

    Statement: For every wave_complete(w) that a coordinator handles: if w is at least the
        current wave, the current wave becomes w + 1 and the engines count as paused, else nothing
        changes, and it is never broadcast; on the wire, no broadcast carries a wave above all that
        engines and the coordinator process announced.
    Reason: A coordinator that counts one completion twice is a wave ahead of its engines; every
        request is then stamped with a wave that nobody runs.
    Source: vllm ``v1/engine/coordinator.py``, Rust ``coordinator/inproc.rs``; protocol page,
        section 11.1 with its table of observed transitions.
    Limits: On a black box only a broadcast of a wave too high shows it (the stamps of ADDs are
        another invariant's). Scripted bytes on the coordinator socket end the judgement.
    """

    id = "wave.complete-advances-once"
    handles = event_types((StartWaveSeen, WaveNoticeHandled, Fenced))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.waves = context.shelf.book(WaveBook, context)
        self._too_high: list[tuple[int, Record]] = []

    def see(self, record: Record) -> None:
        """Judge a completion, and look at broadcasts once events of all processes are in."""
        event = record.event
        match event:
            case WaveNoticeHandled(notice="complete"):
                self._complete(record, event)
            case StartWaveSeen():
                if not self.white and self.waves.completes:
                    self.exercised += 1
                if event.wave > self.waves.highest:
                    self._too_high.append((event.wave, record))
            case Fenced():
                self._look()
            case _:
                pass

    def at_rest(self) -> None:
        """Look a last time."""
        self._look()

    def _complete(self, record: Record, event: WaveNoticeHandled) -> None:
        self.exercised += 1
        expected = (event.wave_before, event.running_before, False)
        if event.wave >= event.wave_before:
            expected = (event.wave + 1, False, False)
        seen = (event.wave_after, event.running_after, event.broadcast)
        if seen != expected:
            self.violate(
                f"wave_complete {event.wave} of engine {event.engine} was handled wrongly",
                expected="wave {}, running {}, broadcast {}".format(*expected),
                seen="wave {}, running {}, broadcast {}".format(*seen),
                witness=(record,),
            )

    def _look(self) -> None:
        waiting, self._too_high = self._too_high, []
        for wave, record in waiting:
            if wave > self.waves.highest and not self.waves.opaque:
                by = self.waves.by
                self.violate(
                    f"wave {wave} was broadcast, though nobody announced it",
                    expected=f"wave <= {self.waves.highest}",
                    seen=f"wave == {wave} at event {record.seq}",
                    witness=(record,) if by is None else (by, record),
                )
