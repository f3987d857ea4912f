"""Invariant lockstep.wave-completes-once."""

from __future__ import annotations

from harness.invariants._lockstep import LockstepInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import EngineJoined, ExchangeHeld, WaveNoticeSent

SPEAKER = 0
"""The rank that reports the end of a wave."""


class WaveCompletesOnce(LockstepInvariant):
    """The end of a wave is reported once, by rank 0.

    Statement: Every wave_complete comes from rank 0, follows an exchange that ended this wave, and
        carries a higher wave than the one before; and by the final fence every exchange that
        ended a wave is followed by its wave_complete.
    Reason: A coordinator believes these reports. One too many, or one that is missing, puts it and
        every frontend beside the engines, which then ignore its wake-ups.
    Source: vLLM ``v1/engine/core.py`` (``run_busy_loop``: rank 0 tells); protocol page, sections
        11.1 and 13.
    Limits: Engines that step together only, of which one has rank 0. Not judged from the moment
        a rank joins again.
    """

    id = "lockstep.wave-completes-once"
    handles = event_types((ExchangeHeld, WaveNoticeSent, EngineJoined))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._speaks = SPEAKER in context.ranks
        self._ended: dict[int, Record] = {}
        self._reported: Record | None = None
        self._highest = -1

    @property
    def _judges(self) -> bool:
        return self._speaks and not self.group.returned

    def see(self, record: Record) -> None:
        """Note ends of waves; judge reports."""
        event = record.event
        if not self._judges:
            return
        if isinstance(event, ExchangeHeld) and not event.goes_on:
            waves = {rank: wave for rank, wave, _ in event.waves}
            self._ended[waves.get(SPEAKER, event.waves[0][1])] = record
        elif isinstance(event, WaveNoticeSent) and event.notice == "complete":
            self._report(record, event)

    def _report(self, record: Record, event: WaveNoticeSent) -> None:
        self.exercised += 1
        before, self._reported = self._reported, record
        wave, ended = event.wave, self._ended.pop(event.wave, None)
        if event.engine != SPEAKER:
            self.violate(
                f"engine {event.engine} reported wave {wave} complete",
                expected=f"wave_complete {wave} from engine {SPEAKER}",
                seen=f"wave_complete {wave} from engine {event.engine}",
                witness=(record,) if ended is None else (ended, record),
            )
        elif wave <= self._highest:
            assert before is not None
            self.violate(
                f"wave {wave} was reported complete after wave {self._highest}",
                expected=f"wave_complete > {self._highest}",
                seen=f"wave_complete {wave}",
                witness=(before, record),
            )
        elif ended is None:
            last = self.group.exchange
            self.violate(
                f"wave {wave} was reported complete, though no exchange ended it",
                expected=f"an exchange that ends wave {wave}",
                seen="no exchange" if last is None else f"the last exchange at event {last.seq}",
                witness=(record,) if last is None else (last, record),
            )
        self._highest = max(self._highest, wave)

    def at_rest(self) -> None:
        """Look for a wave that ended and was not reported."""
        gone = SPEAKER in self.group.dead or SPEAKER in self.group.stalled
        if not self._judges or gone or self.fenced is None:
            return
        for wave, record in self._ended.items():
            self.violate(
                f"wave {wave} ended, and nobody reported it",
                expected=f"wave_complete {wave} from engine {SPEAKER} after event {record.seq}",
                seen=f"no wave_complete {wave}",
                witness=(record,),
            )
