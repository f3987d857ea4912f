"""Base of the invariants on requests: callers' calls beside the engines' ADDs. No invariant."""

from __future__ import annotations

from harness.invariants._adds import AddBook, Episode
from harness.invariants._calls import Call, CallBook
from harness.invariants._run import STATE, RunInvariant, event_types
from harness.invariants.base import RunContext

REQUESTS = event_types(STATE, CallBook.HANDLES, AddBook.HANDLES)


class RequestInvariant(RunInvariant):
    """Keeps both books."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.calls = CallBook()
        self.adds = AddBook()
        self.books += [self.calls, self.adds]

    def calls_of(self, episode: Episode) -> list[Call]:
        """The calls that an ADD may belong to."""
        return self.calls.of_request(episode.event.request_id, episode.event.external_id)
