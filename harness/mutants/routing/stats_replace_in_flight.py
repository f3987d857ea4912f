"""Reported load takes the place of what this client has in flight."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.protocol.ids import Identity
from client.routing import Routing
from harness.mutants.base import Mutant


class BelievesReports(Routing):
    """A report is newer, so it must be right."""

    def score(self, engine: Identity, in_flight: int) -> int:
        """Score by the report alone, once there is one."""
        report = self._reports.get(engine)
        if report is None:
            return in_flight
        return report.running + (1 + self._waiting_weight) * report.waiting


class StatsReplaceInFlight(Mutant):
    """See the module."""

    id = "stats-replace-in-flight"
    family = "routing"
    title = "a load report wipes out what is in flight"
    bug = "Requests that left after the report was made do not count, and a burst meets one rank."
    source = "https://github.com/vllm-project/vllm/pull/48027"
    killed_by = "routing.score-matches"
    hidden_because = (
        "the choice of an engine is compared with loads that only the client's own events show; "
        "outside any engine may be right"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the routing."""
        return replace(base, routing=BelievesReports)
