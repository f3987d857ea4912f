"""Utility calls are forgotten when the client fails."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components, Waiter
from client.errors import ClientError
from client.utility import UtilityRegistry
from harness.mutants.base import Mutant


class KeepsWaiting(UtilityRegistry[Waiter]):
    """Tells request streams of a failure, and nobody else."""

    def close(self, error: ClientError) -> list[Waiter]:
        """Refuse further calls; those under way go on waiting."""
        super().close(error)
        return []


class UtilityCallsSurviveAFailure(Mutant):
    """See the module."""

    id = "utility-calls-survive-a-failure"
    family = "health"
    title = "utility calls go on waiting after the client failed"
    bug = "An admin call hangs for ever, although nobody reads replies any more."
    source = "https://github.com/vllm-project/vllm/issues/56416"
    killed_by = "health.fails-all-open-work"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry of waiters."""
        return replace(base, utilities=KeepsWaiting)
