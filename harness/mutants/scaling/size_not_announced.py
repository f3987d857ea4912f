"""The client tells its coordinator nothing of another number of engines."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.scaling import Scaling
from harness.mutants.base import Mutant
from harness.mutants.scaling import HIDDEN


class Silent(Scaling):
    """Changes the number, and keeps it to itself."""

    def announce(self, size: int) -> None:
        """Tell nobody."""


class SizeNotAnnounced(Mutant):
    """See the module."""

    id = "size-not-announced"
    family = "elastic changes"
    title = "the coordinator is not told of another number of engines"
    bug = (
        "It drops what new engines report, and goes on publishing what removed ones reported last."
    )
    source = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/engine/core_client.py "
        "(the notice goes through the task that reads publishes)"
    )
    killed_by = "elastic.coordinator-follows"
    hidden_because = HIDDEN

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the change."""
        return replace(base, scaling=Silent)
