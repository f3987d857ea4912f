"""Follows requests as the engines see them: each ADD, and what ended it. Not an invariant."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from harness.invariants._run import EventTypes
from harness.trace.events import Record
from mock_engines.events import AbortSeen, AddSeen, EngineDied, FinishedOnlySent, OutputSent


class Episode(msgspec.Struct):
    """One ADD at one engine. An id that is used again begins another episode.

    Attributes:
        finish: the engine's final output, or its bare ``finished_requests``.
        aborts: every ABORT that named the id at this engine.
        died: the engine died while it had the request.
    """

    event: AddSeen
    add: Record
    finish: Record | None = None
    aborts: list[Record] = msgspec.field(default_factory=list)
    died: Record | None = None

    @property
    def engine(self) -> int:
        """The owner's rank."""
        return self.event.engine

    @property
    def open(self) -> bool:
        """Nothing that an engine sees has ended it."""
        return self.over is None

    @property
    def over(self) -> Record | None:
        """The first thing that an engine saw of its end."""
        ends = [each for each in (self.finish, *self.aborts, self.died) if each is not None]
        return min(ends, key=lambda record: record.seq, default=None)


class AddBook:
    """All episodes, in order of arrival."""

    HANDLES: ClassVar[EventTypes] = (AddSeen, AbortSeen, OutputSent, FinishedOnlySent, EngineDied)

    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.by_id: dict[str, list[Episode]] = {}

    def feed(self, record: Record) -> None:
        """Take one record."""
        event = record.event
        match event:
            case AddSeen():
                episode = Episode(event, record)
                self.episodes.append(episode)
                self.by_id.setdefault(event.request_id, []).append(episode)
            case AbortSeen():
                for request_id in event.request_ids:
                    aborted = self.at(request_id, event.engine)
                    if aborted is not None:
                        aborted.aborts.append(record)
            case OutputSent():
                if event.finish is not None:
                    self._finish(record, event.engine, event.request_id)
            case FinishedOnlySent():
                for request_id in event.request_ids:
                    self._finish(record, event.engine, request_id)
            case _:
                assert isinstance(event, EngineDied)
                for episode in self.episodes:
                    if episode.engine == event.engine and episode.open:
                        episode.died = record

    def at(self, request_id: str, engine: int) -> Episode | None:
        """The latest episode of an id at an engine."""
        for episode in reversed(self.by_id.get(request_id, [])):
            if episode.engine == engine:
                return episode
        return None

    def sender(self, request_id: str, engine: int) -> Episode | None:
        """The episode that an output of an engine belongs to.

        The frontend looks at the id alone, so the output of another engine counts for the
        owner's request where the sender has none of that id (protocol page, 5.4).
        """
        own = self.at(request_id, engine)
        if own is not None:
            return own
        known = self.by_id.get(request_id)
        return known[-1] if known else None

    def _finish(self, record: Record, engine: int, request_id: str) -> None:
        episode = self.sender(request_id, engine)
        if episode is not None and episode.finish is None:
            episode.finish = record
