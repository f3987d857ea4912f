"""A rank resumes without its peers."""

from __future__ import annotations

from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import RESUME_IN_FLIGHT, CallFailedError, Part, Rank
from mock_engines.lockstep.scheduler import PauseState
from mock_engines.parts import EngineParts


class Alone(Rank):
    """Goes on as soon as it is told to."""

    def _resume(self) -> Part:
        if self.pending_pause or (self.running and self.ignores_starts):
            raise CallFailedError(RESUME_IN_FLIGHT)
        self.rejects = False
        self.scheduler.pause = PauseState.UNPAUSED
        self.ignores_starts = False
        self.running = self.running or self.scheduler.unfinished > 0
        yield from ()


class ResumeWaitsForNobody(Mutant):
    """See the module."""

    id = "resume-waits-for-nobody"
    family = "lockstep"
    title = "a rank that resumes with work does not wait until all resume"
    bug = (
        "Ranks without work stay idle, or ignore wake-ups still, and the one with work waits "
        "for them."
    )
    source = (
        "https://github.com/vllm-project/vllm/pull/39366 (the barrier of resume); "
        "PrimeIntellect-ai/prime-rl#2168"
    )
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=Alone)
