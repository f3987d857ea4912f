"""An AND that is content with one true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.aggregation import Aggregation
from client.components import Components
from harness.mutants.base import Mutant


class AnyWillDo(Aggregation):
    """Confuses the two words."""

    def conjunction(self, method: str, values: Sequence[bool]) -> bool:
        """Return whether some engine said true. Raises like the right one."""
        super().conjunction(method, values)
        return any(values)


class AnyInsteadOfAll(Mutant):
    """See the module."""

    id = "any-instead-of-all"
    family = "aggregation"
    title = "an action counts as done once one engine did it"
    bug = "An adapter that only one rank has loaded is reported as loaded."
    source = (
        "https://github.com/vllm-project/vllm/pull/43429 (the rule); fault class of half-applied "
        "changes"
    )
    killed_by = "utility.aggregation"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the aggregation rules."""
        return replace(base, aggregation=AnyWillDo)
