"""Invariant wave.stale-first-request-wakes-all."""

from __future__ import annotations

from client.events import FirstRequestHandled
from harness.invariants._adds import Episode
from harness.invariants._first_requests import FIRST_REQUESTS, FirstRequestInvariant
from harness.invariants._waves import scripted
from harness.trace.events import Record


class StaleFirstRequestWakesAll(FirstRequestInvariant):
    """A first request of an old wave starts the current wave at every engine.

    Statement: For every first request with a wave below the coordinator's, the coordinator
        keeps its wave and broadcasts exactly this wave, leaving no engine out; on the wire, an
        engine that a broadcast leaves out has a request stamped with at least that wave, unless
        an engine asked for the broadcast, or the wave before it ended on the request's way.
    Reason: The engine that holds a stale request counts itself behind and may be asleep; if it
        is left out of the wake-up, it sleeps while its peers wait for it.
    Source: vllm#46833, unit facts (current 4, request 3, target 2) -> (4, none); protocol page,
        section 11.2.
    Limits: Releases up to 0.32, later ones have no first requests. While the engines run, an
        external coordinator broadcasts nothing. The wire is read only where every call's ADD
        arrived and no engine sent a start_wave of the same wave. A real frontend reads the wave
        once for the ADD and again for its coordinator, so an ADD that arrives after the end of
        its wave may rightly be older than the broadcast that leaves its engine out.
    """

    id = "wave.stale-first-request-wakes-all"
    profiles = "<0.33"
    handles = FIRST_REQUESTS

    def first_request(self, record: Record, event: FirstRequestHandled) -> None:
        """Judge a stale one."""
        current = event.wave_before
        if event.request_wave >= current:
            return
        self.exercised += 1
        if event.broadcast_wave is None and event.running_before:
            return
        seen = (event.broadcast_wave, event.exclude)
        if seen != (current, None):
            self.violate(
                f"a first request of wave {event.request_wave} was handled at wave {current}"
                " without waking every engine",
                expected=f"broadcast of wave {current}, excluding None",
                seen=f"broadcast of wave {seen[0]}, excluding {seen[1]}",
                witness=(record,),
            )

    def at_rest(self) -> None:
        """Read the wire: who was left out must hold a request of the wave."""
        newest_at: dict[int, Episode] = {}
        for episode in self.adds.episodes:
            known = newest_at.get(episode.engine)
            if known is None or episode.event.wave > known.event.wave:
                newest_at[episode.engine] = episode
        for broadcast in self.unexplained():
            if broadcast.exclude is None:
                self.exercised += not self.white
                continue
            newest = newest_at.get(broadcast.exclude)
            if newest is None or self._overtaken(newest, broadcast.wave):
                continue
            if newest.event.wave < broadcast.wave:
                self.violate(
                    f"wave {broadcast.wave} was broadcast without engine {broadcast.exclude},"
                    " which has requests of earlier waves only",
                    expected=f"broadcast of wave {broadcast.wave}, excluding None",
                    seen=f"broadcast of wave {broadcast.wave}, excluding {broadcast.exclude}",
                    witness=(newest.add, broadcast.seen[0]),
                )

    def _overtaken(self, episode: Episode, wave: int) -> bool:
        """Whether the wave before ``wave`` was complete before this ADD arrived."""
        dumped = {} if self.white else self.context.scenario.model_dump(exclude_unset=True)
        if next(scripted(dumped, "flood"), None) is not None:
            return True  # its notices are too many to be told one by one
        return any(
            complete.seq < episode.add.seq
            for number, completes in self.waves.completes.items()
            if number >= wave - 1
            for complete in completes
        )
