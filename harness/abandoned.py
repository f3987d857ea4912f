"""Requests that an engine still has although nobody waits for them any more.

A frontend in a process of its own may answer a later question before it sends the ABORT for a
caller who left: that goes another way inside it, and no round trip is behind it. So a fence of
such a frontend waits for these ends, for a bounded time; who never sends them is judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from client.aio import DeadlineExceeded, resolve, with_deadline
from harness.invariants._adds import AddBook, Episode
from harness.invariants._calls import CallBook
from harness.invariants._run import FrontendState
from harness.trace.events import Record
from harness.trace.recorder import Recorder

PATIENCE_S = 1.0
"""How long a fence waits for the ABORT of a request; a net, since it takes milliseconds."""


class Abandoned:
    """Follows calls and ADDs; ``await over(live)`` returns when none is left at these engines."""

    def __init__(self, trace: Recorder) -> None:
        self._trace = trace
        self._calls = CallBook()
        self._adds = AddBook()
        self._state = FrontendState(white=False)
        self._given_up: set[int] = set()
        """Trace numbers of ADDs that were waited for in vain: once is enough."""
        self._wake: asyncio.Future[None] | None = None
        kinds = (*CallBook.HANDLES, *AddBook.HANDLES, *FrontendState.HANDLES)
        trace.subscribe(self._feed, *dict.fromkeys(kinds))

    def _feed(self, record: Record) -> None:
        kind = type(record.event)
        for book in (self._calls, self._adds, self._state):
            if kind in book.HANDLES:
                book.feed(record)
        if self._wake is not None:
            resolve(self._wake)

    def _left(self, live: Callable[[int], bool]) -> list[Episode]:
        if not self._state.sound:
            return []  # who failed or goes aborts nothing
        return [
            episode
            for episode in self._adds.episodes
            if episode.open
            and live(episode.engine)
            and episode.add.seq not in self._given_up
            and self._calls.nobody_waits(episode.event.request_id, episode.event.external_id)
        ]

    async def over(self, live: Callable[[int], bool]) -> None:
        """Wait until engines for which ``live(rank)`` is true have no such request, or give up."""
        if not self._left(live):
            return
        try:
            await with_deadline(self._none_left(live), PATIENCE_S, name="fence: abandoned")
        except DeadlineExceeded:
            self._given_up.update(episode.add.seq for episode in self._left(live))

    async def _none_left(self, live: Callable[[int], bool]) -> None:
        loop = asyncio.get_running_loop()
        while self._left(live):
            self._wake = loop.create_future()
            try:
                await self._wake
            finally:
                self._wake = None
