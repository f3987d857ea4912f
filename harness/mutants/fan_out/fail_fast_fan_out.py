"""The fan-out of releases up to 0.28: the first failure in time ends the call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from client.components import Components
from client.utility import Failed, FanOut, Ok
from harness.mutants.base import Mutant


class FirstFailureEnds(FanOut[Any]):
    """Settles at the first failure, and shows that one."""

    first_failure: Failed | None = None

    def record(self, position: int, outcome: Ok[Any] | Failed) -> None:
        """Keep an outcome, and whether it is the first failure in time."""
        super().record(position, outcome)
        if self.first_failure is None and isinstance(outcome, Failed):
            self.first_failure = outcome

    @property
    def settled(self) -> bool:
        """Whether all succeeded or one failed; the others may still be at work."""
        return self.first_failure is not None or super().settled

    def results(self) -> list[Any]:
        """Values, or the failure that came first. Raises that."""
        if self.first_failure is not None:
            raise self.first_failure.error
        return super().results()


class FailFastFanOut(Mutant):
    """See the module."""

    id = "fail-fast-fan-out"
    family = "fan-out"
    title = "a utility call returns at the first failure"
    bug = "A caller compensates while another engine still applies the change."
    source = "https://github.com/vllm-project/vllm/pull/52671"
    killed_by = "utility.settles-before-return"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the fan-out."""
        return replace(base, fan_out=FirstFailureEnds)
