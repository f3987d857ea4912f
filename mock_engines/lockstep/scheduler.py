"""The requests of one rank: who runs, who waits, what a step brings. Pure.

As simple as can be: a batch of bounded size in order of arrival, some tokens for each in a step.
What is kept is what others can see of vLLM's scheduler: what counts as unfinished in which state of
a pause, that an aborted request leaves one empty step behind, and the counts that are published.

Source: vLLM ``v1/core/sched/scheduler.py`` (``PauseState``, ``get_num_unfinished_requests``,
``has_requests``, ``get_request_counts``); protocol page, section 14.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

BATCH_MAX = 256
"""Requests that run together (``max_num_seqs``)."""


class PauseState(enum.IntEnum):
    """``NEW``: what runs goes on, nothing is taken up. ``ALL``: nothing runs."""

    UNPAUSED = 0
    NEW = 1
    ALL = 2


@dataclass(slots=True, eq=False)
class Work:
    """One request. ``left``: tokens that it still gets; ``client``: whose it is."""

    request_id: str
    left: int
    client: int = 0


class Row(msgspec.Struct, frozen=True):
    """What a step brings one request. ``finish``: ``length``, ``abort``, ``error`` or ``None``."""

    request_id: str
    client: int
    tokens: int
    finish: str | None = None


class Scheduler:
    """The requests of one rank.

    Args:
        batch: how many run together.
        tokens: how many tokens each of them gets in a step.
    """

    def __init__(self, *, batch: int = BATCH_MAX, tokens: int = 1) -> None:
        self.pause = PauseState.UNPAUSED
        self._batch = batch
        self._tokens = tokens
        self._waiting: dict[str, Work] = {}
        self._running: dict[str, Work] = {}
        self._unflushed = False

    @property
    def unfinished(self) -> int:
        """Requests that would run in this state of the pause."""
        if self.pause is PauseState.ALL:
            return 0
        return len(self._running) + (len(self._waiting) if self.pause is PauseState.UNPAUSED else 0)

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything, be it only to forget what has ended."""
        return self.unfinished > 0 or self._unflushed

    @property
    def counts(self) -> tuple[int, int]:
        """Requests that run and that wait, whatever the pause."""
        return len(self._running), len(self._waiting)

    def has(self, request_id: str) -> bool:
        """Whether it knows this request."""
        return request_id in self._running or request_id in self._waiting

    def add(self, work: Work) -> None:
        """Take a request up; it waits for its turn."""
        self._waiting[work.request_id] = work

    def abort(self, request_ids: Iterable[str] | None = None) -> list[Row]:
        """End these requests, or all; unknown ids are ignored. Returns their last rows."""
        known = [*self._running, *self._waiting]
        wanted = known if request_ids is None else list(request_ids)
        rows = []
        for request_id in wanted:
            work = self._running.pop(request_id, None) or self._waiting.pop(request_id, None)
            if work is not None:
                self._unflushed = True
                rows.append(Row(work.request_id, work.client, 0, "abort"))
        return rows

    def preempt(self) -> None:
        """Put what runs back to the head of the queue, as the reset of a cache does."""
        self._waiting = {**self._running, **self._waiting}
        self._running = {}

    def step(self) -> tuple[list[Row], bool]:
        """Run one step. Returns its rows, and whether the model ran."""
        self._unflushed = False
        if self.pause is PauseState.ALL:
            return [], False
        if self.pause is PauseState.UNPAUSED and self._waiting:
            for request_id in list(self._waiting)[: self._batch - len(self._running)]:
                self._running[request_id] = self._waiting.pop(request_id)
        rows = [self._advance(work) for work in list(self._running.values())]
        return rows, bool(rows)

    def _advance(self, work: Work) -> Row:
        tokens = min(self._tokens, work.left)
        work.left -= tokens
        if work.left > 0:
            return Row(work.request_id, work.client, tokens)
        del self._running[work.request_id]
        self._unflushed = True
        return Row(work.request_id, work.client, tokens, "length")
