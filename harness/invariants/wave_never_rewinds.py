"""Invariant wave.never-rewinds."""

from __future__ import annotations

from client.events import FirstRequestHandled, WaveNoticeHandled
from harness.invariants._run import event_types
from harness.invariants._waves import is_probe, restarts_coordinator
from harness.invariants.base import Invariant, RunContext
from harness.trace.events import Record, StepBegan
from mock_engines.events import StartWaveSeen


class WaveNeverRewinds(Invariant):
    """The wave that a coordinator broadcasts, and its own, never go back.

    Statement: For every engine, the waves of the START_DP_WAVE messages that it receives never
        decrease; and for every input that a coordinator handles, the wave after it is at least
        the wave before it, which is at least the wave after the previous input. A start_wave for
        a wave that its sender has reported complete (a stale probe) is not passed on.
    Reason: Ranks that count waves apart wait for each other for ever: a rank that is told an
        old wave ignores the message or steps alone, and the request behind it hangs.
    Source: vllm#46833 (stale FirstRequest put the in-process coordinator back, releases up to
        0.24.0); protocol page, sections 11.2 and 22.
    Limits: Order is compared within one engine only, since broadcasts to two engines are not
        ordered. A restarted external coordinator begins anew. The wave that a frontend takes over
        from an external coordinator may go back by design and is not judged.
    """

    id = "wave.never-rewinds"
    handles = event_types((StartWaveSeen, FirstRequestHandled, WaveNoticeHandled, StepBegan))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._highest: dict[int, tuple[int, Record]] = {}
        self._current: tuple[int, Record] | None = None

    def on_event(self, record: Record) -> None:
        """Compare with what this engine, or the coordinator, had before."""
        match record.event:
            case StartWaveSeen():
                self._seen(record, record.event)
            case FirstRequestHandled() | WaveNoticeHandled():
                self._handled(record, record.event)
            case _:
                if restarts_coordinator(self.context, record):
                    self._highest.clear()
                    self._current = None

    def _seen(self, record: Record, event: StartWaveSeen) -> None:
        before = self._highest.get(event.engine)
        if is_probe(self.context, event.exclude):
            self.violate(
                f"a start of wave {event.wave} was passed on after that wave had completed",
                expected=f"the stale start_wave of wave {event.wave} is ignored",
                seen=f"START_DP_WAVE of wave {event.wave} at event {record.seq}",
                witness=(record,) if before is None else (before[1], record),
            )
        elif before is None:
            self._highest[event.engine] = (event.wave, record)
        else:
            self._compare(record, event, *before)

    def _compare(self, record: Record, event: StartWaveSeen, wave: int, earlier: Record) -> None:
        self.exercised += 1
        if event.wave < wave:
            self.violate(
                f"engine {event.engine} was told wave {event.wave} after wave {wave}",
                expected=f"wave >= {wave} after event {earlier.seq}",
                seen=f"wave == {event.wave} at event {record.seq}",
                witness=(earlier, record),
            )
        else:
            self._highest[event.engine] = (event.wave, record)

    def _handled(self, record: Record, event: FirstRequestHandled | WaveNoticeHandled) -> None:
        self.exercised += 1
        if self._current is not None and event.wave_before < self._current[0]:
            wave, earlier = self._current
            self._rewound(wave, event.wave_before, earlier, record)
        elif event.wave_after < event.wave_before:
            self._rewound(event.wave_before, event.wave_after, record, record)
        self._current = (event.wave_after, record)

    def _rewound(self, wave: int, later: int, earlier: Record, record: Record) -> None:
        self.violate(
            f"the coordinator went from wave {wave} back to {later}",
            expected=f"current wave >= {wave}",
            seen=f"current wave == {later} at event {record.seq}",
            witness=(earlier, record),
        )
