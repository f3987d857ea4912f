"""Follows what makes ranks come to a meeting: wake-ups, and calls. Not an invariant."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from client.events import FirstRequestHandled, FirstRequestQueued, WaveNoticeHandled
from harness.invariants._lockstep import UNPAUSED
from harness.invariants._run import EventTypes
from harness.trace.events import Record
from mock_engines.events import (
    AbortSeen,
    AddSeen,
    RankMoved,
    StartWaveIgnored,
    StartWaveSeen,
    UtilityReplySent,
    UtilitySeen,
    WaveNoticeSent,
)

KEPT = 16
"""Messages of a kind and a rank that are kept: a report is about the last ones."""


@dataclass(slots=True)
class Wakes:
    """What concerns one rank, the latest last.

    Attributes:
        seen: START_DP_WAVE that arrived, ``ignored``: that it took to no effect.
        asked: start_wave that it sent; ``adds``, ``aborts``: what arrived of requests.
        calls: utility calls that arrived.
        began, stopped: when it last began to run, and ended to.
        resumed: when its pause ended last.
    """

    seen: deque[Record] = field(default_factory=lambda: deque(maxlen=KEPT))
    ignored: deque[Record] = field(default_factory=lambda: deque(maxlen=KEPT))
    asked: deque[Record] = field(default_factory=lambda: deque(maxlen=KEPT))
    adds: deque[Record] = field(default_factory=lambda: deque(maxlen=KEPT))
    aborts: deque[Record] = field(default_factory=lambda: deque(maxlen=KEPT))
    calls: deque[Record] = field(default_factory=lambda: deque(maxlen=KEPT))
    began: Record | None = None
    stopped: Record | None = None
    resumed: Record | None = None


class WakeBook:
    """Wake-ups by rank, and what a coordinator made of notices.

    Attributes:
        handled: notices and first requests that a coordinator acted on, where it tells.
        queued: first requests that a frontend told its coordinator of, where it tells.
        replies: call id → the reply; ``then``: call id → the rank's last move before it.
        state_at: call id → the rank's state when the call arrived.
    """

    HANDLES: ClassVar[EventTypes] = (
        *(StartWaveSeen, StartWaveIgnored, WaveNoticeSent, WaveNoticeHandled),
        *(FirstRequestQueued, FirstRequestHandled),
        *(UtilitySeen, UtilityReplySent, AddSeen, AbortSeen, RankMoved),
    )

    def __init__(self) -> None:
        self._ranks: dict[int, Wakes] = {}
        self._moved: dict[int, Record] = {}
        self._states: dict[int, RankMoved] = {}
        self.handled: deque[Record] = deque(maxlen=KEPT)
        self.queued: deque[Record] = deque(maxlen=KEPT)
        self.replies: dict[int, Record] = {}
        self.then: dict[int, Record] = {}
        self.state_at: dict[int, RankMoved] = {}

    def of(self, rank: int) -> Wakes:
        """What concerns a rank."""
        found = self._ranks.get(rank)
        if found is None:
            found = self._ranks[rank] = Wakes()
        return found

    def feed(self, record: Record) -> None:
        """Take one record."""
        event = record.event
        match event:
            case StartWaveSeen():
                self.of(event.engine).seen.append(record)
            case StartWaveIgnored():
                self.of(event.engine).ignored.append(record)
            case WaveNoticeSent(notice="start"):
                self.of(event.engine).asked.append(record)
            case WaveNoticeHandled() | FirstRequestHandled():
                self.handled.append(record)
            case FirstRequestQueued():
                self.queued.append(record)
            case UtilitySeen():
                self.of(event.engine).calls.append(record)
                if (state := self._states.get(event.engine)) is not None:
                    self.state_at[event.call_id] = state
            case UtilityReplySent():
                self.replies[event.call_id] = record
                if event.engine in self._moved:
                    self.then[event.call_id] = self._moved[event.engine]
            case AddSeen():
                self.of(event.engine).adds.append(record)
            case AbortSeen():
                self.of(event.engine).aborts.append(record)
            case RankMoved():
                self._move(record, event)
            case _:
                pass

    def _move(self, record: Record, event: RankMoved) -> None:
        rank, before = event.engine, self._states.get(event.engine)
        ran = before is not None and before.running
        if event.running and not ran:
            self.of(rank).began = record
        elif ran and not event.running:
            self.of(rank).stopped = record
        if before is not None and before.pause != event.pause == UNPAUSED:
            self.of(rank).resumed = record
        self._states[rank] = event
        self._moved[rank] = record
