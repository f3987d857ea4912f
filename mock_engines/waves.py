"""The wave state of all mock engines together, for ``waves: auto``.

Theory of operation. Real ranks step together: each step ends in an all-reduce that tells all of
them whether anybody has work left. Here there is no all-reduce; one object sees every rank and
decides at once what the exchange would have brought:

- a rank *runs* from the moment in which it has work, or was told to start a wave;
- the wave completes when every rank runs (so all would have met in the all-reduce) and none has
  work. Then the first rank sends ``wave_complete`` and each rank goes on to the next wave. A rank
  that was never woken thus keeps the wave open, as it would keep its peers blocked in reality;
- from 0.29 on the first rank also announces a wave that it has begun to run. A real one may do so
  twice for one wave, which the coordinator ignores; here it happens once.

Ranks that have died do not take part: their peers would hang, and a scenario about that says so
itself. A rank that is stalled holds the wave open until it goes on.

Source: vLLM ``v1/engine/core.py`` (DPEngineCoreProc: ``add_request``,
``_handle_client_request``, ``run_busy_loop``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from client.protocol.profiles import Profile

COMPLETE = "complete"
START = "start"


@dataclass(frozen=True, slots=True)
class SendNotice:
    """Effect: ``rank`` sends a wave notice. ``notice``: ``complete`` or ``start``."""

    rank: int
    notice: str
    wave: int


@dataclass(slots=True)
class RankWave:
    """Wave state of one rank.

    ``announced``: last wave for which it sent ``start_wave``; ``stalled``: it steps no further.
    """

    wave: int
    running: bool
    has_work: bool = False
    announced: int | None = None
    stalled: bool = False

    @property
    def may_complete(self) -> bool:
        """Whether this rank lets its wave end."""
        return self.running and not self.has_work and not self.stalled


class AutoWaves:
    """Pure: told what happens at each rank, answers which notices leave, in order."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._ranks: dict[int, RankWave] = {}

    def wave(self, rank: int) -> int:
        """The rank's current wave."""
        return self._ranks[rank].wave if rank in self._ranks else 0

    def running(self, rank: int) -> bool:
        """Whether the rank takes part in a running wave."""
        return rank in self._ranks and self._ranks[rank].running

    def participants(self) -> tuple[int, ...]:
        """Ranks that have joined and not died, lowest first."""
        return tuple(self._ranks)

    def enter(self, rank: int) -> None:
        """A rank joined, or returned.

        It takes over the highest wave that its peers have, and takes part if they run: nobody
        would wake it later, and the wave could never end.
        """
        peers = self._ranks.values()
        wave = max((peer.wave for peer in peers), default=0)
        self._ranks[rank] = RankWave(wave=wave, running=any(peer.running for peer in peers))
        self._ranks = dict(sorted(self._ranks.items()))

    def leave(self, rank: int) -> list[SendNotice]:
        """A rank died; the others go on without it."""
        self._ranks.pop(rank, None)
        return self._complete_if_idle()

    def added(self, rank: int, *, wave: int, paused: bool = False) -> list[SendNotice]:
        """ADD of ``wave`` arrived at a rank.

        Source: protocol page, section 13: a newer wave is taken over; an idle rank answers a
        stale one with ``start_wave``, and from 0.33 on a current one too.
        """
        state = self._ranks[rank]
        idle = not state.running and not paused
        stale = wave < state.wave
        state.wave = max(state.wave, wave)
        if not idle:
            return []
        effects: list[SendNotice] = []
        if stale or self._profile.engine_starts_current_wave:
            effects.append(self._start(rank))
        return [*effects, *self._run(rank)]

    def start_dp_wave(self, rank: int, *, wave: int, exclude: int | None) -> list[SendNotice]:
        """START_DP_WAVE arrived at a rank: ignored when stale or when it is left out."""
        state = self._ranks[rank]
        if exclude == rank or wave < state.wave:
            return []
        state.wave = wave
        return [*self._run(rank), *self._complete_if_idle()]

    def work(self, rank: int, *, unfinished: bool) -> list[SendNotice]:
        """The rank has unfinished requests, or has none any more."""
        if rank not in self._ranks:
            return []
        self._ranks[rank].has_work = unfinished
        effects = self._run(rank) if unfinished else []
        return [*effects, *self._complete_if_idle()]

    def stall(self, rank: int) -> None:
        """The rank stopped: its peers would wait for it in the exchange, so no wave completes."""
        if rank in self._ranks:
            self._ranks[rank].stalled = True

    def resume(self, rank: int) -> list[SendNotice]:
        """The rank goes on."""
        if rank not in self._ranks:
            return []
        self._ranks[rank].stalled = False
        return self._complete_if_idle()

    def _start(self, rank: int) -> SendNotice:
        state = self._ranks[rank]
        state.announced = state.wave
        return SendNotice(rank, START, state.wave)

    def _run(self, rank: int) -> list[SendNotice]:
        state = self._ranks[rank]
        if state.running:
            return []
        state.running = True
        announces = not self._profile.external_coordinator_marks_running
        first = next(iter(self._ranks)) == rank
        # Since the coordinator process waits for proof that a wave runs, rank 0 gives it.
        if announces and first and state.announced != state.wave:
            return [self._start(rank)]
        return []

    def _complete_if_idle(self) -> list[SendNotice]:
        states = self._ranks.values()
        if not states or not all(state.may_complete for state in states):
            return []
        first = next(iter(self._ranks))
        notice = SendNotice(first, COMPLETE, self._ranks[first].wave)
        for state in states:
            state.wave += 1
            state.running = False
        return [notice]


def numbers(effects: Iterable[SendNotice]) -> list[tuple[int, str, int]]:
    """Return effects as plain tuples, for tests and reports."""
    return [(effect.rank, effect.notice, effect.wave) for effect in effects]
