"""Numbers the events of a run, keeps them, and lets steps wait for them."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from harness.scenario.model import EventMatch
from harness.trace.events import CallStarted, Event, Record
from harness.trace.kinds import EVENT_CLASSES, class_of, matches

_MICROSECONDS = 1_000_000


_NAMES = {cls: cls.__name__ for cls in EVENT_CLASSES}
# A third of the time of a text, and the digest needs no more. What JSON has no form for: as text.
_LINES = msgspec.json.Encoder(enc_hook=repr).encode_lines
_EXACTLY = msgspec.msgpack.Encoder().encode
Listener = Callable[[Record], None]


def _in_us(clock: Callable[[], float]) -> int:
    return round(clock() * _MICROSECONDS)


def _running_us() -> int:
    """The time of the loop that runs now."""
    return _clock_of(asyncio.get_running_loop())()


def _clock() -> Callable[[], int]:
    """What tells the time in a run that has begun, or in one that is still to come."""
    try:
        return _clock_of(asyncio.get_running_loop())
    except RuntimeError:
        return _running_us


def _clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], int]:
    """The loop's time in microseconds; a simulated one counts in them."""
    return getattr(loop, "time_us", None) or partial(_in_us, loop.time)


def _bytes(events: Sequence[Event]) -> bytes:
    """The events as bytes, a line for each: other names or values make other bytes."""
    try:
        return _LINES([(_NAMES[event.__class__], event) for event in events])
    except UnicodeError:  # half a character that somebody sent
        return b"".join([_line(event) for event in events])


def _line(event: Event) -> bytes:
    try:
        return _LINES([(_NAMES[event.__class__], event)])
    except UnicodeError:
        return f"{event!r}\n".encode("utf-8", "surrogatepass")


def digest_of(records: Sequence[Record], before: int = 0) -> int:
    """CRC-32 of events, in order, behind those whose digest is ``before``; times are left out."""
    return zlib.crc32(_bytes([record.event for record in records]), before)


def fingerprint(records: Sequence[Record]) -> bytes | None:
    """What is the same for two traces only if all events and times are; ``None``: there is no such thing.

    Unlike the digest, which has 32 bits, no times, and the values of JSON alone. A tuple and a list
    of the same are one here, and a date and its text: no field of an event may be either.
    """
    try:
        exactly = _EXACTLY([(_NAMES[r.event.__class__], r.time_us, r.event) for r in records])
    except (TypeError, OverflowError, UnicodeError):  # no form in msgpack: 2**64, half a character
        return None
    return hashlib.blake2b(exactly, digest_size=32).digest()


class Recorder:
    """The trace of one run.

    Attributes:
        records: the trace so far; stays empty when ``keep`` is false.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] | None = None,
        keep: bool = True,
    ) -> None:
        """Start an empty trace.

        Args:
            clock: seconds; default: the running loop's time.
            keep: whether records are stored; the digest is made either way.
        """
        self.records: list[Record] = []
        self._digest = 0
        self._digested = 0
        self._given: Callable[[], int] | None = None if clock is None else partial(_in_us, clock)
        self._now_us: Callable[[], int] = self._given or _clock()
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
        # At once, when somebody asks: bytes and a checksum for each event as it comes cost more.
        new = self.records[self._digested :]
        if new:
            self._digested += len(new)
            self._digest = digest_of(new, self._digest)
        return self._digest

    def emit(self, event: Event) -> Record:
        """Number one event, keep it, and tell those who wait."""
        number = self._next
        self._next = number + 1
        record = Record(number, self._now_us(), event)
        # Not isinstance: where it says no of a struct, it takes eight times as long.
        if event.__class__ is CallStarted:
            self._calls[event.op] = event
        if self._keep:
            self.records.append(record)
        else:
            self._digest = zlib.crc32(_bytes([event]), self._digest)
        cls = event.__class__
        if (heard := self._heard) is None or cls in heard:
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
        """Let go of all who listen: nothing more happens.

        They refer to the trace, so that a run would stay in memory until a garbage collection.
        """
        self._now_us = self._given or _running_us  # not the loop's: its run is over
        self._listeners.clear()
        self._listen()

    def match(self, record: Record, wanted: EventMatch) -> bool:
        """See ``kinds.matches``, with the calls of this trace."""
        # The class is looked at here already: a whole trace is searched for few events.
        if record.event.__class__ is not class_of(wanted.event):
            return False
        return matches(record, wanted, self._calls)

    def matching(self, wanted: EventMatch) -> list[Record]:
        """All kept records that match, in order."""
        return [record for record in self.records if self.match(record, wanted)]
