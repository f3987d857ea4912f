"""A reply that fits no waiter is handed to the oldest one."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components, Waiter
from client.utility import UtilityRegistry
from harness.mutants.base import Mutant


class SomebodyWillWantIt(UtilityRegistry[Waiter]):
    """Takes replies to be in the order of calls."""

    def resolve(self, call_id: int) -> Waiter | None:
        """Take out the waiter of this id, else the oldest."""
        waiter = super().resolve(call_id)
        if waiter is None and self._waiters:
            waiter = super().resolve(min(self._waiters))
        return waiter


class StrayReplyToTheOldestWaiter(Mutant):
    """See the module."""

    id = "stray-reply-to-the-oldest-waiter"
    family = "waiters"
    title = "a reply that fits nobody resolves the oldest call"
    bug = "The late answer to a call that was given up is taken for the answer to another one."
    source = "https://github.com/vllm-project/vllm/pull/52671; protocol page, section 9.2"
    killed_by = "utility.late-replies-dropped"
    hidden_because = (
        "outside the log is counted, and there the reply that was displaced is reported in the "
        "place of the stray one"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry of waiters."""
        return replace(base, utilities=SomebodyWillWantIt)
