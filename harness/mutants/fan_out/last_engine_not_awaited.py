"""A fan-out that is content when all engines but one have answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from client.components import Components
from client.utility import FanOut
from harness.mutants.base import Mutant


class OneTooFew(FanOut[Any]):
    """Counts from zero where it should from one."""

    @property
    def settled(self) -> bool:
        """Whether at most one engine is still at work."""
        return len(self._outcomes) >= max(len(self._ranks) - 1, 1)


class LastEngineNotAwaited(Mutant):
    """See the module."""

    id = "last-engine-not-awaited"
    family = "fan-out"
    title = "a utility call does not wait for the last engine"
    bug = "The caller goes on while one engine still applies the change."
    source = "https://github.com/vllm-project/vllm/pull/52671 (a seeded fault of the same kind)"
    killed_by = "utility.settles-before-return"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the fan-out."""
        return replace(base, fan_out=OneTooFew)
