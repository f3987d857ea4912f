"""An abort is broadcast instead of going to the engine that has the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.components import Components
from client.protocol.ids import Identity, RequestId
from client.requests import AbortGroup, AbortGrouping
from harness.mutants.base import Mutant


class BroadcastGrouping(AbortGrouping):
    """Does not care who owns a request."""

    def group(
        self, aborted: Sequence[tuple[RequestId, Identity]], *, one_frame_per_engine: bool
    ) -> list[AbortGroup]:
        """Name all ids to all engines."""
        del one_frame_per_engine
        ids = tuple(request_id for request_id, _ in aborted)
        return [(engine, ids) for engine in sorted(self._engines)] if ids else []


class AbortToEveryEngine(Mutant):
    """See the module."""

    id = "abort-to-every-engine"
    family = "streams and aborts"
    title = "ABORT goes to every engine"
    bug = "Engines are told of requests that they never had, as often as there are engines."
    source = "protocol page, section 8.2 (a seeded fault: no release had it)"
    killed_by = "request.abort-only-to-owner"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the grouping of aborts."""
        return replace(base, abort_grouping=BroadcastGrouping)
