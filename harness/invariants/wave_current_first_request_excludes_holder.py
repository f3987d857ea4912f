"""Invariant wave.current-first-request-excludes-holder."""

from __future__ import annotations

from client.events import FirstRequestHandled, FirstRequestQueued
from harness.invariants._first_requests import FIRST_REQUESTS, FirstRequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record


class CurrentFirstRequestExcludesHolder(FirstRequestInvariant):
    """A first request of the current wave leaves out exactly the engine that has the request.

    Statement: For every first request with a wave at or above the coordinator's, the broadcast
        carries the coordinator's wave and leaves out the engine of that request and no other;
        on the wire, a broadcast that leaves nobody out has a request of an earlier wave as its
        cause, unless an engine asked for it.
    Reason: The engine that has the request starts by itself and needs no wake-up; any other
        engine that is left out sleeps through the wave, and its peers hang in their collectives.
    Source: vllm#46833, unit facts (current 4, request 4, target 2) and (current 4, request 5,
        target 2) -> (4, 2); protocol page, sections 6.2 and 11.2.
    Limits: Releases up to 0.32. While the engines run, an external coordinator broadcasts
        nothing. The wire is read only where every call's ADD arrived.
    """

    id = "wave.current-first-request-excludes-holder"
    profiles = "<0.33"
    handles = event_types((*FIRST_REQUESTS, FirstRequestQueued))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._queue: list[tuple[Record, FirstRequestQueued]] = []

    def see(self, record: Record) -> None:
        """Remember what the client queued."""
        if isinstance(record.event, FirstRequestQueued):
            self._queue.append((record, record.event))
        super().see(record)

    def first_request(self, record: Record, event: FirstRequestHandled) -> None:
        """Judge a current or newer one."""
        if event.request_wave < event.wave_before:
            return
        self.exercised += 1
        if event.broadcast_wave is None and event.running_before:
            return
        holder = event.engine
        witness = [record]
        for queued, queue in self._queue:
            if queue.wave == event.request_wave:
                witness = [queued, record]
        if self._queue and not any(
            (q.engine, q.wave) == (holder, event.request_wave) for _, q in self._queue
        ):
            self.violate(
                f"a first request was handled for engine {holder} that no client queued",
                expected=f"first request queued for engine {holder}, wave {event.request_wave}",
                seen="no such first request",
                witness=witness,
            )
        seen = (event.broadcast_wave, event.exclude)
        if seen != (event.wave_before, holder):
            self.violate(
                f"a first request for engine {holder} was broadcast wrongly",
                expected=f"broadcast of wave {event.wave_before}, excluding {holder}",
                seen=f"broadcast of wave {seen[0]}, excluding {seen[1]}",
                witness=witness,
            )

    def at_rest(self) -> None:
        """Read the wire: a broadcast to all needs a request of an earlier wave."""
        for broadcast in self.unexplained():
            if broadcast.exclude is not None:
                self.exercised += not self.white
                continue
            oldest = min(self.adds.episodes, key=lambda episode: episode.event.wave)
            if oldest.event.wave >= broadcast.wave:
                self.violate(
                    f"wave {broadcast.wave} was broadcast to all, though no request is older",
                    expected=f"broadcast of wave {broadcast.wave}, excluding {oldest.engine}",
                    seen=f"broadcast of wave {broadcast.wave}, excluding None",
                    witness=(oldest.add, broadcast.seen[0]),
                )
