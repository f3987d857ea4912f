"""Call ids are taken from the lowest one that nobody waits for."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components, Waiter
from client.protocol.ids import CallId
from client.utility import UtilityRegistry
from harness.mutants.base import Mutant


class LowestFree(UtilityRegistry[Waiter]):
    """Uses ids again once their calls are over."""

    def allocate(self, waiter: Waiter) -> CallId:
        """Register a waiter under the lowest free id."""
        self._next = next(each for each in range(1, self._next + 1) if each not in self._waiters)
        return super().allocate(waiter)


class CallIdsUsedAgain(Mutant):
    """See the module."""

    id = "call-ids-used-again"
    family = "waiters"
    title = "call ids are used again"
    bug = "The late reply to a cancelled call resolves the next one."
    source = "protocol page, section 9.1 (a seeded fault: no release had it)"
    killed_by = "utility.unique-call-ids"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the registry of waiters."""
        return replace(base, utilities=LowestFree)
