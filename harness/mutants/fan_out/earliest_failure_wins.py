"""A fan-out that keeps failures in order of time, and shows the earliest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from client.components import Components
from client.utility import Failed, FanOut, Ok
from harness.mutants.base import Mutant


class FirstInTime(FanOut[Any]):
    """Waits for all engines, then raises the failure that came first."""

    earliest: Failed | None = None

    def record(self, position: int, outcome: Ok[Any] | Failed) -> None:
        """Keep an outcome, and the first failure in time."""
        super().record(position, outcome)
        if self.earliest is None and isinstance(outcome, Failed):
            self.earliest = outcome

    def results(self) -> list[Any]:
        """Values, or the failure that came first. Raises that."""
        if self.earliest is not None:
            raise self.earliest.error
        return super().results()


class EarliestFailureWins(Mutant):
    """See the module."""

    id = "earliest-failure-wins"
    family = "fan-out"
    title = "of several failures the caller sees the fastest engine's"
    bug = "The error of one and the same fault differs from run to run and cannot be searched for."
    source = "https://github.com/vllm-project/vllm/pull/52671"
    killed_by = "utility.error-lowest-engine"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the fan-out."""
        return replace(base, fan_out=FirstInTime)
