"""Invariant elastic.leaving-rank-loses-nothing."""

from __future__ import annotations

from harness.invariants._adds import AddBook
from harness.invariants._elastic import ElasticInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import EngineRemoved


class LeavingRankLosesNothing(ElasticInvariant):
    """What an engine has when the group shrinks without it has come to an end.

    Statement: Whenever an engine is removed, every request that it took up has ended there before:
        finished, or aborted with a last output.
    Reason: An engine that is gone says no last word. A caller whose request went with it waits for
        ever, since its frontend is sound.
    Source: vLLM ``v1/engine/core_client.py``: leaving ranks are paused with mode ``abort`` since
        0.27; until 0.26 their process ended with whatever it had.
    Limits: Scenarios in which the number of engines changes.
    """

    id = "elastic.leaving-rank-loses-nothing"
    handles = event_types((EngineRemoved,))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.adds = context.shelf.book(AddBook)

    def see(self, record: Record) -> None:
        """Look at what the engine had."""
        event = record.event
        assert isinstance(event, EngineRemoved)
        self.exercised += 1
        lost = [each for each in self.adds.episodes if each.engine == event.engine and each.open]
        if lost:
            names = ", ".join(each.event.request_id for each in lost)
            self.violate(
                f"engine {event.engine} was removed, and had {names}",
                expected=f"an end of {names} at engine {event.engine} before event {record.seq}",
                seen=f"{len(lost)} without an end",
                witness=(*(each.add for each in lost), record),
            )
