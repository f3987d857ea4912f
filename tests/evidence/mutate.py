"""Evidence that lies: each event of a trace removed, doubled, swapped with its neighbour, or changed.

Some promises cannot be broken by an event that is gone or too many, in a run that kept them: that an
error is the one of the lowest engine, say. So one field after the other is changed, too.
"""

from __future__ import annotations

import ast
import functools
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.trace.events import Event, Record
from harness.trace.kinds import KIND_OF

REMOVED, DOUBLED, SWAPPED, CHANGED = OPERATIONS = ("removed", "doubled", "swapped", "changed")
OUTCOMES = ("finished", "failed", "cancelled")
Turn = Callable[[list[Event], int], list[Event]]


def _removed(events: list[Event], place: int) -> list[Event]:
    return [*events[:place], *events[place + 1 :]]


def _doubled(events: list[Event], place: int) -> list[Event]:
    return [*events[: place + 1], *events[place:]]


def _swapped(events: list[Event], place: int) -> list[Event]:
    return [*events[:place], events[place + 1], events[place], *events[place + 2 :]]


def _same(events: list[Event], _place: int) -> list[Event]:
    return list(events)


_TURNS: dict[str, Turn] = {REMOVED: _removed, DOUBLED: _doubled, SWAPPED: _swapped, CHANGED: _same}


@dataclass(frozen=True)
class Lie:
    """One lie about the event at ``place``.

    Attributes:
        other: the neighbour of a swap; what a changed event became.
        field: of a changed event.
    """

    operation: str
    place: int
    event: Event
    other: Event | None = None
    field: str = ""

    @property
    def kind(self) -> str:
        """Kind of the event, as scenario files name it."""
        return KIND_OF[type(self.event)][0]

    @property
    def what(self) -> str:
        """Kind, and the field if one was changed."""
        return f"{self.kind}.{self.field}" if self.field else self.kind


def mutated(records: Sequence[Record], lie: Lie) -> list[Record]:
    """The evidence after one change, numbered anew; times stay in order."""
    events = _TURNS[lie.operation]([record.event for record in records], lie.place)
    if lie.operation == CHANGED:
        assert lie.other is not None
        events[lie.place] = lie.other
    times = [record.time_us for record in records]
    times += times[-1:] * (len(events) - len(times))
    return [Record(seq, times[seq], event) for seq, event in enumerate(events)]


def lies(records: Sequence[Record], places: Sequence[int] | None = None) -> Iterator[Lie]:
    """All lies, or those at some places. Two equal neighbours are not swapped."""
    for place in range(len(records)) if places is None else places:
        event = records[place].event
        yield Lie(REMOVED, place, event)
        yield Lie(DOUBLED, place, event)
        if place + 1 < len(records) and records[place + 1].event != event:
            yield Lie(SWAPPED, place, event, records[place + 1].event)
        for field, other in changes(event):
            yield Lie(CHANGED, place, event, other, field)


def changes(event: Event) -> Iterator[tuple[str, Event]]:
    """The event with one field of another value of its type."""
    for field, hint in _hints(type(event)).items():
        for value in _others(getattr(event, field), hint):
            yield field, msgspec.structs.replace(event, **{field: value})


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _others(value: Any, hint: Any) -> Iterator[Any]:
    choices = typing.get_args(hint)
    match value:
        case None:
            yield 0 if int in choices else "wrong" if str in choices else ()
        case bool():
            yield not value
        case int() | float():
            yield value + 1
            yield value - 1
        case str() if value in OUTCOMES:
            yield from (other for other in OUTCOMES if other != value)
        case str():
            yield f"{value}?"
            yield from _other_texts(value)
        case tuple() if value:
            # Without its last; backwards; with another first. Pairs and triples keep their shape.
            yield value[:-1]
            if value[::-1] != value:
                yield value[::-1]
            yield from ((inner, *value[1:]) for inner in _inner(value[0]))
        case _:
            pass
    if value is not None and type(None) in choices:
        yield None


def spread(count: int, most: int) -> list[int]:
    """At most so many places of a long trace, evenly over it, both ends among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})


def _other_texts(value: str) -> Iterator[str]:
    """Another value, where a text is that of one: a list backwards, the other truth."""
    if value in ("True", "False"):
        yield str(value == "False")
    elif value.startswith("["):
        items = ast.literal_eval(value)
        if items[::-1] != items:
            yield repr(items[::-1])


def _inner(first: Any) -> Iterator[Any]:
    """Another first member: a number or text, or a row with one number that is one more."""
    if not isinstance(first, tuple):
        yield from _others(first, type(first))
        return
    for place, each in enumerate(first):
        if place and isinstance(each, int) and not isinstance(each, bool):
            yield (*first[:place], each + 1, *first[place + 1 :])
