"""Base of the invariants on requests: callers' calls beside the engines' ADDs. No invariant."""

from __future__ import annotations

from harness.invariants._adds import AddBook, Episode
from harness.invariants._calls import Call, CallBook
from harness.invariants._ends import EndBook
from harness.invariants._run import RunInvariant
from harness.invariants.base import RunContext


class RequestInvariant(RunInvariant):
    """Keeps the books."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.calls = context.shelf.book(CallBook)
        self.adds = context.shelf.book(AddBook)
        self._ends = context.shelf.book(EndBook)

    def calls_of(self, episode: Episode) -> list[Call]:
        """The calls that an ADD may belong to."""
        return self.calls.of_request(episode.event.request_id, episode.event.external_id)

    def stray_end(self, episode: Episode, *, until: int) -> bool:
        """Whether an end that was not meant may have reached the caller, sent before ``until``."""
        begun = min(call.started.seq for call in self.calls_of(episode))
        event, added = episode.event, episode.add.seq
        strays = self._ends.strays(event.request_id, engine=event.engine, begun=begun, added=added)
        return any(seq < until for seq in strays)
