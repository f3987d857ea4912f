"""Joins the engines of a cluster to their shared wave model."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from mock_engines.handle import EngineHandle
from mock_engines.waves import AutoWaves, SendNotice


class ClusterWaves:
    """Passes inputs to ``AutoWaves`` and lets the engines send what it answers, in order.

    Implements ``WaveLink``. One task sends at a time, so that the notices of one engine leave in
    the order in which they were decided.
    """

    def __init__(
        self,
        model: AutoWaves,
        handles: Mapping[int, EngineHandle],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.model = model
        self._handles = handles
        self._on_failure = on_failure
        self._queue: deque[SendNotice] = deque()
        self._sender: asyncio.Task[None] | None = None

    @property
    def sender(self) -> asyncio.Task[None] | None:
        """The task that sends, if there is something to send."""
        return self._sender

    def wave(self, rank: int) -> int:
        """The rank's current wave."""
        return self.model.wave(rank)

    def enter(self, rank: int) -> None:
        """The engine joined a coordinator."""
        self.model.enter(rank)
        self._take([])

    def leave(self, rank: int) -> None:
        """The engine died."""
        self._take(self.model.leave(rank))

    def added(self, rank: int, *, wave: int, paused: bool) -> None:
        """ADD arrived."""
        self._take(self.model.added(rank, wave=wave, paused=paused))

    def start_dp_wave(self, rank: int, *, wave: int, exclude: int | None) -> None:
        """START_DP_WAVE took effect."""
        self._take(self.model.start_dp_wave(rank, wave=wave, exclude=exclude))

    def work(self, rank: int, *, unfinished: bool) -> None:
        """The engine has unfinished requests now, or none."""
        self._take(self.model.work(rank, unfinished=unfinished))

    def stall(self, rank: int) -> None:
        """The engine stopped for a while."""
        self.model.stall(rank)

    def resume(self, rank: int) -> None:
        """The engine goes on."""
        self._take(self.model.resume(rank))

    def stop(self) -> None:
        """Send nothing any more."""
        self._queue.clear()
        if self._sender is not None:
            self._sender.cancel()

    def _take(self, effects: Iterable[SendNotice]) -> None:
        self._queue.extend(effects)
        for handle in self._handles.values():
            handle.waves_moved()
        if self._queue and self._sender is None:
            loop = asyncio.get_running_loop()
            self._sender = loop.create_task(self._send(), name="wave notices")
            self._sender.add_done_callback(self._sender_ended)

    async def _send(self) -> None:
        try:
            while self._queue:
                effect = self._queue.popleft()
                await self._handles[effect.rank].notice(effect.notice, effect.wave)
        finally:
            # Here, not in a done callback: between the two the task would be over and yet busy.
            self._sender = None

    def _sender_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
