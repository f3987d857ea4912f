"""A consensus that asks for a majority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from client.aggregation import Aggregation, same
from client.components import Components
from harness.mutants.base import Mutant

T = TypeVar("T")


class Majority(Aggregation):
    """Outvotes a rank."""

    def consensus(self, method: str, values: Sequence[T]) -> T:
        """Return the value that most engines gave. Raises if there is none."""
        for value in values:
            if sum(same(value, other) for other in values) * 2 > len(values):
                return value
        return super().consensus(method, values)


class MajorityWins(Mutant):
    """See the module."""

    id = "majority-wins"
    family = "aggregation"
    title = "a state on which most engines agree is the answer"
    bug = "One rank of three that is still asleep goes unnoticed."
    source = "https://github.com/vllm-project/vllm/pull/43429"
    killed_by = "utility.aggregation"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the aggregation rules."""
        return replace(base, aggregation=Majority)
