"""Invariant wave.first-request-marks-running."""

from __future__ import annotations

from client.events import FirstRequestHandled
from harness.invariants._first_requests import FIRST_REQUESTS, FirstRequestInvariant
from harness.invariants._run import event_types
from harness.invariants._waves import restarts_coordinator
from harness.invariants.base import RunContext
from harness.trace.events import Record, StepBegan


class FirstRequestMarksRunning(FirstRequestInvariant):
    """After a first request the coordinator says that the engines run.

    Statement: After every first request that a coordinator handles, its running flag is true;
        on the wire, no engine receives two broadcasts of one wave that leave an engine out,
        beyond those that an engine's start_wave explains.
    Reason: A flag that stays false makes every following request a first request: a storm of
        wake-ups, and a coordinator that drops the engines' own view.
    Source: vllm#46833 (running = true when a first request is handled); protocol page, sections
        6.2 and 11.2.
    Limits: Releases up to 0.32. The external coordinator of 0.29 to 0.32 leaves the flag to the
        engines (protocol page, section 12) and is not judged there.
    """

    id = "wave.first-request-marks-running"
    profiles = "<0.33"
    handles = event_types((*FIRST_REQUESTS, StepBegan))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        external = context.scenario.topology.coordinator == "external"
        self._judged = not external or context.profile.external_coordinator_marks_running
        self._restarted = False

    def see(self, record: Record) -> None:
        """Notice restarts, after which a wave may be started again."""
        self._restarted = self._restarted or restarts_coordinator(self.context, record)
        super().see(record)

    def first_request(self, record: Record, event: FirstRequestHandled) -> None:
        """The flag after it."""
        if not self._judged:
            return
        self.exercised += 1
        if not event.running_after:
            self.violate(
                f"the first request for engine {event.engine} left the coordinator paused",
                expected="running == True after the first request",
                seen=f"running == {event.running_after} at event {record.seq}",
                witness=(record,),
            )

    def at_rest(self) -> None:
        """Count the broadcasts of one wave at one engine."""
        if not self._judged or self._restarted or self.waves.opaque or self.waves.rejoined:
            return
        if self.rewound:
            return
        told: dict[tuple[int, int], list[Record]] = {}
        for broadcast in self.broadcasts.values():
            if broadcast.exclude is None:
                continue
            for seen in broadcast.seen:
                engine = getattr(seen.event, "engine", -1)
                told.setdefault((engine, broadcast.wave), []).append(seen)
        for (engine, wave), records in told.items():
            allowed = 1 + len(self.waves.starts.get(wave, ()))
            if not self.white and wave not in self.waves.starts:
                self.exercised += 1
            if len(records) > allowed:
                self.violate(
                    f"engine {engine} was told {len(records)} times to start wave {wave}",
                    expected=f"at most {allowed} broadcast of wave {wave} for a request",
                    seen=f"{len(records)} broadcasts of wave {wave}",
                    witness=records,
                )
