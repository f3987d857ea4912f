"""Waiting requests count like running ones, in releases that weigh them more."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.protocol.ids import Identity
from client.routing import Routing
from harness.mutants.base import Mutant


class Unweighted(Routing):
    """The score of 0.27, in a release before it."""

    def score(self, engine: Identity, in_flight: int) -> int:
        """Score without the weight of waiting requests."""
        report = self._reports.get(engine)
        return in_flight if report is None else max(in_flight, report.running + report.waiting)


class WaitingNotWeighted(Mutant):
    """See the module."""

    id = "waiting-not-weighted"
    family = "routing"
    title = "waiting requests weigh no more than running ones"
    bug = "Requests go to the rank with the longest queue, since its batch is small."
    source = "Rust load score up to 0.26; https://github.com/vllm-project/vllm/issues/48808"
    killed_by = "routing.score-matches"
    needs = "waiting_weight"
    hidden_because = (
        "the choice of an engine is compared with loads that only the client's own events show; "
        "outside any engine may be right"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the routing."""
        return replace(base, routing=Unweighted)
