"""An ABORT that names the first of the requests it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.components import Components
from client.protocol.ids import Identity, RequestId
from client.requests import AbortGroup, AbortGrouping
from harness.mutants.base import Mutant


class FirstOfEach(AbortGrouping):
    """One frame for each engine, with one id in it."""

    def group(
        self, aborted: Sequence[tuple[RequestId, Identity]], *, one_frame_per_engine: bool
    ) -> list[AbortGroup]:
        """Group, and forget all ids of a frame but the first."""
        groups = super().group(aborted, one_frame_per_engine=one_frame_per_engine)
        return [(engine, request_ids[:1]) for engine, request_ids in groups]


class AbortNamesOneOfMany(Mutant):
    """See the module."""

    id = "abort-names-one-of-many"
    family = "streams and aborts"
    title = "a grouped ABORT names one id only"
    bug = "Of many callers who leave at once one request ends, and the others decode for nobody."
    source = "Rust abort loop since 0.24 (ids grouped by engine); a seeded fault"
    killed_by = "request.every-add-ends"
    needs = "groups_aborts"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the grouping of aborts."""
        return replace(base, abort_grouping=FirstOfEach)
