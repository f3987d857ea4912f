"""A guard that cleans up after cancellations only."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import ClientError
from client.guards import UtilityGuard
from harness.mutants.base import Mutant


class OnlyCancellations(UtilityGuard):
    """Believes that a call that fails has all its replies."""

    def on_exit(self, kind: type[BaseException] | None) -> None:
        """Leave the waiters of a failed call where they are."""
        if kind is None or not issubclass(kind, ClientError):
            super().on_exit(kind)


class UtilityWaiterLeakedOnFailure(Mutant):
    """See the module."""

    id = "utility-waiter-leaked-on-failure"
    family = "waiters"
    title = "a utility call that fails leaves its waiters registered"
    bug = "After a timeout or a payload that cannot be encoded the waiters stay until shutdown."
    source = "https://github.com/vllm-project/vllm/pull/52671 (the guard covers every way out)"
    killed_by = "utility.no-waiter-outlives-call"
    hidden_because = (
        "no route sets a time limit of the client, and every argument that comes as JSON can be "
        "encoded"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the guard of utility calls."""
        return replace(base, utility_guard=OnlyCancellations)
