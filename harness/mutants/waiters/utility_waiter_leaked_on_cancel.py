"""No guard: a cancelled utility call leaves its waiters behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from client.components import Components
from client.guards import UtilityGuard
from harness.mutants.base import Mutant


class ForgetfulGuard(UtilityGuard):
    """Cleans up unless the call was cancelled."""

    def on_exit(self, kind: type[BaseException] | None) -> None:
        """Leave the waiters of a cancelled call where they are."""
        if kind is None or not issubclass(kind, asyncio.CancelledError):
            super().on_exit(kind)


class UtilityWaiterLeakedOnCancel(Mutant):
    """See the module."""

    id = "utility-waiter-leaked-on-cancel"
    family = "waiters"
    title = "a cancelled utility call leaves its waiters registered"
    bug = "Waiters pile up until shutdown, and late replies are swallowed without a word."
    source = "https://github.com/vllm-project/vllm/pull/52671"
    killed_by = "utility.no-waiter-outlives-call"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the guard of utility calls."""
        return replace(base, utility_guard=ForgetfulGuard)
