"""Second witness of first requests: what a broadcast says, against the ADDs. Not an invariant.

A broadcast that no engine's start_wave explains answers a first request. One that leaves an
engine out answers a request of the current wave, which that engine has; one that leaves nobody
out answers a request of an earlier wave (protocol page, 11.2).
"""

from __future__ import annotations

import msgspec

from client.events import FirstRequestHandled
from harness.invariants._adds import AddBook
from harness.invariants._calls import CallBook
from harness.invariants._run import RunInvariant, event_types
from harness.invariants._waves import WaveBook, is_probe
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import StartWaveSeen

FIRST_REQUESTS = event_types((StartWaveSeen, FirstRequestHandled))


class Broadcast(msgspec.Struct):
    """One START_DP_WAVE as far as content tells, and who saw it."""

    wave: int
    exclude: int | None
    seen: list[Record] = msgspec.field(default_factory=list)


class FirstRequestInvariant(RunInvariant):
    """Base of the invariants on first requests: keeps broadcasts, ADDs and notices."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.calls = context.shelf.book(CallBook)
        self.adds = context.shelf.book(AddBook)
        self.waves = context.shelf.book(WaveBook, context)
        self.broadcasts: dict[tuple[int, int | None], Broadcast] = {}
        self.rewound = False
        """An engine was told a smaller wave: what follows is a consequence."""
        self._last: dict[int, int] = {}

    def see(self, record: Record) -> None:
        """Sort broadcasts and hand first requests to ``first_request``."""
        event = record.event
        if event.__class__ is FirstRequestHandled:
            self.first_request(record, event)
        elif event.__class__ is StartWaveSeen:
            probed = is_probe(self.context, event.exclude)
            if probed or event.wave < self._last.get(event.engine, 0):
                self.rewound = True
            self._last[event.engine] = event.wave
            key = (event.wave, event.exclude)
            broadcast = self.broadcasts.get(key)
            if broadcast is None:
                broadcast = self.broadcasts[key] = Broadcast(*key)
            broadcast.seen.append(record)

    def first_request(self, record: Record, event: FirstRequestHandled) -> None:
        """Judge the white-box event."""

    def unexplained(self) -> list[Broadcast]:
        """Broadcasts that answer a first request, in order of their first sight.

        None where that cannot be told: a broadcast may lack its request if some call brought
        no ADD, and scripted bytes, repeats for a late engine and a rewound wave blur the rest.
        """
        blurred = self.waves.opaque or self.waves.rejoined or self.rewound
        if blurred or not self.adds.episodes or not self._all_adds_arrived():
            return []
        return [b for b in self.broadcasts.values() if b.wave not in self.waves.starts]

    def _all_adds_arrived(self) -> bool:
        """Each call has an ADD; of those that share an id, there are as many."""
        of_request = self.calls.of_request
        arrived: dict[str, int] = {}
        for episode in self.adds.episodes:
            calls = of_request(episode.event.request_id, episode.event.external_id)
            if calls:
                arrived[calls[0].op] = arrived.get(calls[0].op, 0) + 1
        for call in self.calls.calls.values():
            alike = of_request(call.event.external_id)
            if alike and arrived.get(alike[0].op, 0) < len(alike):
                return False
        return True
