"""The last fatal error replaces the first."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import ClientError
from client.inner import ClientInner
from harness.mutants.base import Mutant


class LatestError(ClientInner):
    """Newer is better."""

    def fail(self, error: ClientError) -> None:
        """Fail closed, with the newest cause."""
        super().fail(error)
        self.health_error = error


class LatestErrorWins(Mutant):
    """See the module."""

    id = "latest-error-wins"
    family = "health"
    title = "a later fatal error replaces the first"
    bug = "The cause that callers and operators see changes, and hides the real one."
    source = "protocol page, section 5.3 (sticky first error); a seeded fault"
    killed_by = "health.sticky-first"
    hidden_because = "outside a frontend is seen to be unhealthy, not why"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=LatestError)
