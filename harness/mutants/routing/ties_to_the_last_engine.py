"""Ties go to the last engine."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.protocol.ids import Identity
from client.routing import InFlight, Routing
from harness.mutants.base import Mutant


class LastOfEquals(Routing):
    """Compares with "at most" where it should with "below"."""

    def choose(self, explicit_rank: int | None, in_flight: InFlight) -> Identity:
        """Choose the engine of a request; of equals the last. Raises like the right one."""
        if explicit_rank is not None:
            return super().choose(explicit_rank, in_flight)
        return min(
            reversed(self._engines), key=lambda engine: self.score(engine, in_flight(engine))
        )


class TiesToTheLastEngine(Mutant):
    """See the module."""

    id = "ties-to-the-last-engine"
    family = "routing"
    title = "ties go to the last engine"
    bug = "Several frontends that count alike send their bursts to another rank than they should."
    source = "https://github.com/vllm-project/vllm/pull/47420 (ties that one rank always wins)"
    killed_by = "routing.score-matches"
    hidden_because = (
        "the choice of an engine is compared with loads that only the client's own events show; "
        "outside any engine may be right"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the routing."""
        return replace(base, routing=LastOfEquals)
