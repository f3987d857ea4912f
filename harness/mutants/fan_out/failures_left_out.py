"""A fan-out that returns what succeeded and keeps failures to itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from client.components import Components
from client.utility import FanOut, Ok
from harness.mutants.base import Mutant


class OnlyGoodNews(FanOut[Any]):
    """Failures do not count as long as one engine succeeded."""

    def results(self) -> list[Any]:
        """Values of the engines that have one. Raises if none has."""
        values = [
            outcome.value
            for _, outcome in sorted(self._outcomes.items())
            if isinstance(outcome, Ok)
        ]
        return values or super().results()


class FailuresLeftOut(Mutant):
    """See the module."""

    id = "failures-left-out"
    family = "fan-out"
    title = "a failed engine is left out of the results"
    bug = "A change that one engine refused is reported as done."
    source = "fault class F1 (failure told as success); protocol page, section 9.2"
    killed_by = "utility.aggregation"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the fan-out."""
        return replace(base, fan_out=OnlyGoodNews)
