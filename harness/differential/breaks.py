"""Rules of the model made wrong on purpose: the comparison has to see each of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from mock_engines.lockstep.effects import Enter, Send
from mock_engines.lockstep.rank import Rank
from mock_engines.lockstep.rules import LockstepRules
from mock_engines.lockstep.scheduler import PauseState

Part = Generator[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Break:
    """What is wrong: ``rules`` changes the release's rules, ``rank`` makes the ranks."""

    rules: Callable[[LockstepRules], LockstepRules] = lambda rules: rules
    rank: Callable[..., Rank] = Rank


class _HearsStarts(Rank):
    """Goes on hearing START_DP_WAVE after all agreed on a pause."""

    def _exchange(self, unfinished: bool) -> Part:
        anybody = yield from super()._exchange(unfinished)
        self.ignores_starts = False
        return anybody


class _StaleAddSilent(Rank):
    """Takes an ADD of an older wave without a word."""

    def _of_wave(self, wave: int) -> Part:
        inner = super()._of_wave(wave)
        for effect in inner:
            if not (isinstance(effect, Send) and wave < self.wave):
                yield effect


class _ResumesAlone(Rank):
    """Resumes without meeting its peers."""

    def _resume(self) -> Part:
        inner = super()._resume()
        answer = None
        while True:
            try:
                effect = inner.send(answer)
            except StopIteration as end:
                return end.value
            meets = isinstance(effect, Enter) and effect.kind == "resume"
            answer = self.scheduler.unfinished > 0 if meets else (yield effect)


class _IdlePauseAtOnce(Rank):
    """An idle rank takes a pause as complete, without telling its peers."""

    def _pause(self, mode: str = "abort", clear_cache: bool = True) -> Part:
        idle = not self.has_work
        later = yield from super()._pause(mode, clear_cache)
        if idle:
            self.pending_pause = self.running = False
        return later


class _ResumesInFlight(Rank):
    """Resumes although a pause is in flight."""

    def _resume(self) -> Part:
        self.pending_pause = False
        return (yield from super()._resume())


class _AnnouncesPaused(Rank):
    """An ADD of an older wave wakes the peers although the rank is paused."""

    def _of_wave(self, wave: int) -> Part:
        paused, self.scheduler.pause = self.scheduler.pause, PauseState.UNPAUSED
        yield from super()._of_wave(wave)
        self.scheduler.pause = paused


BREAKS = {
    "nothing": Break(),
    "sync-one-step-early": Break(
        rules=lambda rules: replace(rules, sync_interval=rules.sync_interval - 1)
    ),
    "first-step-sync-flipped": Break(
        rules=lambda rules: replace(rules, syncs_first_step=not rules.syncs_first_step)
    ),
    "edge-notice-flipped": Break(
        rules=lambda rules: replace(rules, announces_edge=not rules.announces_edge)
    ),
    "starts-heard-after-consensus": Break(rank=_HearsStarts),
    "stale-add-silent": Break(rank=_StaleAddSilent),
    "resume-without-barrier": Break(rank=_ResumesAlone),
    "idle-pause-at-once": Break(rank=_IdlePauseAtOnce),
    "resume-during-pause": Break(rank=_ResumesInFlight),
    "paused-add-announces": Break(rank=_AnnouncesPaused),
}
"""Name → what is wrong. ``nothing`` is the model as it is."""
