"""How ranks paused before they agreed on it: what the mutants of that time share."""

from __future__ import annotations

from mock_engines.lockstep.effects import COORDINATOR, Notice, Send
from mock_engines.lockstep.rank import PAUSE_MODES, CallFailedError, Later, Part, Rank
from mock_engines.lockstep.scheduler import PauseState

HIDDEN = (
    "its engines are those of the harness, which a frontend in a process of its own is judged "
    "with as they are"
)
"""Why a fault of the engine loop shows on sim and on zmq only."""


class GuardsAdds(Rank):
    """Each rank pauses by itself, and answers as soon as it is idle.

    A resumed rank that has work tells the coordinator, and waits for nobody. A paused one keeps a
    request to itself.

    Source: PR #37024, on top of #34125 and #34544.
    """

    def _pause(self, mode: str = "abort", clear_cache: bool = True) -> Part:
        if mode not in PAUSE_MODES:
            msg = f"invalid pause mode {mode!r}"
            raise CallFailedError(msg)
        if mode == "abort":
            yield from self._abort_all()
        self.scheduler.pause = PauseState.ALL if mode == "keep" else PauseState.NEW
        return Later(self.scheduler.preempt) if clear_cache else Later()

    def _resume(self) -> Part:
        self.rejects = False
        self.scheduler.pause = PauseState.UNPAUSED
        if not self.running and self.scheduler.unfinished > 0:
            yield Send(COORDINATOR, Notice("start", self.wave))


class OnePhase(GuardsAdds):
    """Tells of a request for an older wave, be it paused or not, and does not run for it.

    Source: vLLM ``v1/engine/core.py`` as of PR #34125 and #34544.
    """

    def _of_wave(self, wave: int) -> Part:
        stale = wave < self.wave
        self.wave = max(self.wave, wave)
        if not self.running and (stale or self.rules.announces_current):
            yield Send(COORDINATOR, Notice("start", self.wave))
