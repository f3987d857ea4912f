"""A rank whose requests wait for their cache runs no dummy batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Part, Rank
from mock_engines.lockstep.scheduler import Row, Scheduler, Work
from mock_engines.parts import EngineParts


class FetchesCaches(Scheduler):
    """Each request waits for its cache, which comes from elsewhere, until the step after next."""

    def __init__(self, *, batch: int, tokens: int) -> None:
        super().__init__(batch=batch, tokens=tokens)
        self._fetching: dict[str, Work] = {}

    @property
    def unfinished(self) -> int:
        """Those that wait for their cache are among them."""
        return super().unfinished + (0 if self.pause else len(self._fetching))

    @property
    def counts(self) -> tuple[int, int]:
        """They count as waiting."""
        running, waiting = super().counts
        return running, waiting + len(self._fetching)

    def has(self, request_id: str) -> bool:
        """Whether it knows this request."""
        return request_id in self._fetching or super().has(request_id)

    def add(self, work: Work) -> None:
        """Take a request up; its cache is on its way."""
        self._fetching[work.request_id] = work

    def abort(self, request_ids: Iterable[str] | None = None) -> list[Row]:
        """End these requests, or all."""
        self._fetched()
        return super().abort(request_ids)

    def step(self) -> tuple[list[Row], bool]:
        """Run one step; then all caches are there."""
        done = super().step()
        self._fetched()
        return done

    def _fetched(self) -> None:
        for work in self._fetching.values():
            super().add(work)
        self._fetching = {}


class CountsItAsRun(Rank):
    """Believes that the model ran wherever there are requests."""

    def _step(self) -> Part:
        executed = yield from super()._step()
        return executed or self.scheduler.unfinished > 0


class WaitingRequestNeedsNoDummy(Mutant):
    """See the module."""

    id = "waiting-request-needs-no-dummy"
    family = "lockstep"
    title = "a rank that has requests, all of which wait, runs no dummy batch"
    bug = "Its peers wait in the forward pass that it left out."
    source = "https://github.com/vllm-project/vllm/pull/18559"
    killed_by = "lockstep.no-rank-waits-alone"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank, and its scheduler."""
        return replace(base, rank=CountsItAsRun, scheduler=FetchesCaches)
