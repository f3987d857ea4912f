"""A fan-out that lists values in the order in which they arrived."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from client.components import Components
from client.utility import Failed, FanOut
from harness.mutants.base import Mutant


class ByArrival(FanOut[Any]):
    """Forgets which engine a value came from."""

    def results(self) -> list[Any]:
        """Values in order of arrival. Raises as the right one does."""
        super().results()
        values: list[Any] = []
        for outcome in self._outcomes.values():
            assert not isinstance(outcome, Failed)
            values.append(outcome.value)
        return values


class ResultsInOrderOfArrival(Mutant):
    """See the module."""

    id = "results-in-order-of-arrival"
    family = "fan-out"
    title = "results come in order of arrival"
    bug = "The state of one rank is read as that of another."
    source = "protocol page, sections 2 and 9.3 (a seeded fault: no release had it)"
    killed_by = "utility.result-order"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the fan-out."""
        return replace(base, fan_out=ByArrival)
