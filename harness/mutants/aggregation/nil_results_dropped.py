"""Worker results without nil."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from client.aggregation import Aggregation
from client.components import Components
from harness.mutants.base import Mutant


class NoNil(Aggregation):
    """Leaves out what is nothing."""

    def flatten(self, values: Sequence[Any]) -> list[Any]:
        """Concatenate array results; nil counts as no item."""
        return [item for item in super().flatten(values) if item is not None]


class NilResultsDropped(Mutant):
    """See the module."""

    id = "nil-results-dropped"
    family = "aggregation"
    title = "workers that answer nil are missing in the results"
    bug = "The results of all later workers move up, and are read as those of others."
    source = "protocol page, section 9.3 (nil is an item); a seeded fault"
    killed_by = "utility.result-order"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the aggregation rules."""
        return replace(base, aggregation=NoNil)
