"""A rank that is half awake runs no dummy batch, while one that has a request runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Rank
from mock_engines.lockstep.rules import LockstepRules
from mock_engines.lockstep.scheduler import Scheduler
from mock_engines.parts import EngineParts


class ResumesAndSkips(Rank):
    """Resumes whatever still sleeps, and leaves out dummy batches as long as it does."""

    def __init__(
        self,
        rank: int,
        rules: LockstepRules,
        scheduler: Scheduler | None = None,
        *,
        has_coordinator: bool = True,
        publishes: bool = True,
        other: Callable[[str, tuple[Any, ...]], Any] | None = None,
    ) -> None:
        super().__init__(
            rank,
            replace(rules, resumes_half_awake=True, dummies_asleep=False),
            scheduler,
            has_coordinator=has_coordinator,
            publishes=publishes,
            other=other,
        )


class HalfAwakeRankSkipsItsDummy(Mutant):
    """See the module."""

    id = "half-awake-rank-skips-its-dummy"
    family = "lockstep"
    title = "a half-awake rank resumes, but runs no dummy batch"
    bug = "The rank that has a request waits in its forward pass for those that have none."
    source = "https://github.com/vllm-project/vllm/pull/44483 (its first part alone, as vime#56 proposed it)"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=ResumesAndSkips)
