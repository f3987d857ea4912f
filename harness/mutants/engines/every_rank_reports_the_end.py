"""Every rank reports the end of a wave."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from mock_engines.parts import EngineParts
from mock_engines.waves import COMPLETE, AutoWaves, SendNotice


class EverybodyReports(AutoWaves):
    """Has no spokesman."""

    def _complete_if_idle(self) -> list[SendNotice]:
        return [
            SendNotice(rank, COMPLETE, notice.wave)
            for notice in super()._complete_if_idle()
            for rank in self._ranks
        ]


class EveryRankReportsTheEnd(Mutant):
    """See the module."""

    id = "every-rank-reports-the-end"
    family = "engine wave rules"
    title = "every rank reports the end of a wave"
    bug = "A report that is late counts a second time wherever completions are counted."
    source = "protocol page, section 13 (the first rank reports); a seeded fault"
    killed_by = "wave.ends-when-idle"
    hidden_because = (
        "engines are the harness's own, whatever frontend is judged; and a wave is judged in "
        "simulation only, where nothing is under way at a fence"
    )

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the wave rules."""
        return replace(base, waves=EverybodyReports)
