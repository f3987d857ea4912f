"""Evidence that lies: each event of a trace removed, doubled, or swapped with its neighbour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.trace.events import Event, Record
from harness.trace.kinds import KIND_OF

REMOVED, DOUBLED, SWAPPED = OPERATIONS = ("removed", "doubled", "swapped")
Turn = Callable[[list[Event], int], list[Event]]


def _removed(events: list[Event], place: int) -> list[Event]:
    return [*events[:place], *events[place + 1 :]]


def _doubled(events: list[Event], place: int) -> list[Event]:
    return [*events[: place + 1], *events[place:]]


def _swapped(events: list[Event], place: int) -> list[Event]:
    return [*events[:place], events[place + 1], events[place], *events[place + 2 :]]


_TURNS: dict[str, Turn] = {REMOVED: _removed, DOUBLED: _doubled, SWAPPED: _swapped}


@dataclass(frozen=True)
class Lie:
    """One change: what was done to the event at ``place``; ``other`` is the neighbour of a swap."""

    operation: str
    place: int
    event: Event
    other: Event | None = None

    @property
    def kind(self) -> str:
        """Kind of the event, as scenario files name it."""
        return KIND_OF[type(self.event)][0]


def mutated(records: Sequence[Record], lie: Lie) -> list[Record]:
    """The evidence after one change, numbered anew; times stay in order."""
    events = _TURNS[lie.operation]([record.event for record in records], lie.place)
    times = [record.time_us for record in records]
    times += times[-1:] * (len(events) - len(times))
    return [Record(seq, times[seq], event) for seq, event in enumerate(events)]


def lies(records: Sequence[Record], places: Sequence[int] | None = None) -> Iterator[Lie]:
    """All changes, or those at some places. Two equal neighbours are not swapped."""
    for place in range(len(records)) if places is None else places:
        event = records[place].event
        yield Lie(REMOVED, place, event)
        yield Lie(DOUBLED, place, event)
        if place + 1 < len(records) and records[place + 1].event != event:
            yield Lie(SWAPPED, place, event, records[place + 1].event)


def spread(count: int, most: int) -> list[int]:
    """At most so many places of a long trace, evenly over it, both ends among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})
