"""The ``is_sleeping`` of releases up to 0.22: engine 0 speaks for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from client.aggregation import Aggregation
from client.components import Components
from harness.mutants.base import Mutant

T = TypeVar("T")


class FirstEngineOnly(Aggregation):
    """Does not look at the other engines."""

    def consensus(self, method: str, values: Sequence[T]) -> T:
        """Return the first engine's value for ``is_sleeping``."""
        return values[0] if method == "is_sleeping" else super().consensus(method, values)


class FirstEngineOnlyIsSleeping(Mutant):
    """See the module."""

    id = "first-engine-only-is-sleeping"
    family = "aggregation"
    title = "is_sleeping returns the first engine's value"
    bug = "Engines that disagree about their state are reported as one healthy answer."
    source = "https://github.com/vllm-project/vllm/pull/43429"
    killed_by = "utility.aggregation"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the aggregation rules."""
        return replace(base, aggregation=FirstEngineOnly)
