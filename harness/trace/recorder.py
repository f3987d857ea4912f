"""Numbers the events of a run, judges them as they happen, and lets steps wait for them."""

from __future__ import annotations

import asyncio
import operator
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from harness.invariants.base import Judge
from harness.scenario.model import EventMatch
from harness.trace.events import CallStarted, Event, Record
from harness.trace.kinds import EVENT_CLASSES, FIELDS_OF, class_of, matches

_MICROSECONDS = 1_000_000


def _getter(cls: type) -> Callable[[Any], Any]:
    fields = FIELDS_OF[cls]
    return operator.attrgetter(*fields) if len(fields) == 1 else msgspec.structs.astuple


# Faster than an event's own repr, and the digest needs no more.
_VALUES = {cls: (cls.__name__, _getter(cls)) for cls in EVENT_CLASSES}
Listener = Callable[[Record], None]


def _in_us(clock: Callable[[], float]) -> int:
    return round(clock() * _MICROSECONDS)


def _clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], int]:
    """The loop's time in microseconds; a simulated one counts in them."""
    return getattr(loop, "time_us", None) or partial(_in_us, loop.time)


def _text(event: Event) -> str:
    name, values = _VALUES[event.__class__]
    return f"{name}{values(event)!r}"


class Recorder:
    """The trace of one run.

    Attributes:
        records: the trace so far; stays empty when ``keep`` is false.
    """

    def __init__(
        self,
        judge: Judge | None = None,
        *,
        clock: Callable[[], float] | None = None,
        keep: bool = True,
    ) -> None:
        """Start an empty trace.

        Args:
            judge: gets each record as it happens; ``None`` = nobody judges.
            clock: seconds; default: the running loop's time.
            keep: whether records are stored; the digest is made either way.
        """
        self.records: list[Record] = []
        self._digest = 0
        self._digested = 0
        self._given: Callable[[], int] | None = None if clock is None else partial(_in_us, clock)
        self._now_us: Callable[[], int] | None = self._given
        self._judge = judge
        self._keep = keep
        self._next = 0
        self._calls: dict[str, CallStarted] = {}
        self._listeners: list[tuple[Listener, tuple[type, ...]]] = []
        self._heard: frozenset[type] | None = frozenset()
        """Kinds that somebody listens to; ``None``: all."""

    @property
    def count(self) -> int:
        """How many events were recorded."""
        return self._next

    @property
    def digest(self) -> int:
        """CRC-32 of all events so far, in order; times are left out."""
        # At once, when somebody asks: a text and a checksum for each event as it comes cost more.
        new = self.records[self._digested :]
        self._digested += len(new)
        text = "".join([_text(record.event) for record in new])
        self._digest = zlib.crc32(text.encode(), self._digest)
        return self._digest

    def emit(self, event: Event) -> Record:
        """Number one event, judge it, and tell those who wait."""
        now_us = self._now_us
        if now_us is None:
            now_us = self._now_us = _clock_of(asyncio.get_running_loop())
        number = self._next
        self._next = number + 1
        record = Record(number, now_us(), event)
        # Not isinstance: where it says no of a struct, it takes eight times as long.
        if event.__class__ is CallStarted:
            self._calls[event.op] = event
        if self._keep:
            self.records.append(record)
        else:
            self._digest = zlib.crc32(_text(event).encode(), self._digest)
        if (judge := self._judge) is not None:
            judge.feed(record)
        cls = event.__class__
        heard = self._heard
        if heard is None or cls in heard:
            for listener in [hear for hear, kinds in self._listeners if not kinds or cls in kinds]:
                listener(record)
        return record

    def _listen(self) -> None:
        """Note which kinds somebody listens to, after a change."""
        kinds: list[type] = []
        for _, wanted in self._listeners:
            if not wanted:
                self._heard = None
                return
            kinds.extend(wanted)
        self._heard = frozenset(kinds)

    def subscribe(self, callback: Listener, *kinds: type) -> Callable[[], None]:
        """Call ``callback`` for each later record; returns what ends the subscription.

        ``kinds``: only for events of these classes; none = for all. Most of a run's events
        concern none of those who listen.
        """
        subscription = (callback, kinds)
        self._listeners.append(subscription)
        self._listen()

        def unsubscribe() -> None:
            if subscription in self._listeners:
                self._listeners.remove(subscription)
                self._listen()

        return unsubscribe

    def close(self) -> None:
        """Let go of the judge and of all who listen: nothing more happens.

        They refer to the trace, so that a run would stay in memory until a garbage collection.
        """
        self._judge = None
        self._now_us = self._given
        self._listeners.clear()
        self._listen()

    def take_records(self) -> list[Record]:
        """Hand the records over, and keep none."""
        self._digest, self._digested = self.digest, 0
        records, self.records = self.records, []
        return records

    def match(self, record: Record, wanted: EventMatch) -> bool:
        """See ``kinds.matches``, with the calls of this trace."""
        # The class is looked at here already: a whole trace is searched for few events.
        if record.event.__class__ is not class_of(wanted.event):
            return False
        return matches(record, wanted, self._calls)

    def matching(self, wanted: EventMatch) -> list[Record]:
        """All kept records that match, in order."""
        return [record for record in self.records if self.match(record, wanted)]
