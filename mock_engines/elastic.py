"""Another number of engines, where the engines do not step together (``waves: auto, script``).

What the meeting of old and new ranks decides in a real deployment is decided here at once: when
every engine that is there was told to go on, and every new one has joined, those that are to leave
end, and the first of those that stay tells its frontend that all have changed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from mock_engines import events
from mock_engines.handle import EngineHandle
from mock_engines.lockstep.elastic import Elastic
from mock_engines.wave_link import ClusterWaves


class Switchboard:
    """Implements ``ElasticLink``.

    Args:
        ranks: engines that are there from the start.
        handles: all engines; replaced ones are seen.
        waves: the shared wave model, which knows wave and running flag.
        observer: told of the change.
        on_failure: told of an error on the way.
    """

    def __init__(
        self,
        ranks: Iterable[int],
        handles: Mapping[int, EngineHandle],
        waves: ClusterWaves | None,
        observer: events.Observer,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._ranks = dict.fromkeys(ranks)
        self._handles = handles
        self._waves = waves
        self._observer = observer
        self._on_failure = on_failure
        self._told: dict[int, Elastic] = {}
        self._arrived: dict[int, None] = {}
        self.task: asyncio.Task[None] | None = None

    def told(self, rank: int, elastic: Elastic) -> None:
        """The engine was told of a change, or to go on with it."""
        self._told[rank] = elastic
        self._look()

    def arrived(self, rank: int) -> None:
        """An engine that was started for a new size has joined."""
        self._arrived[rank] = None
        self._look()

    def _look(self) -> None:
        """Change over if everybody is there."""
        if not all(rank in self._told and self._told[rank].due for rank in self._ranks):
            return
        sizes = {elastic.size for elastic in self._told.values()}
        if len(sizes) > 1 or self.task is not None:
            return
        ranks = range(sizes.pop())
        if all(rank in self._ranks or rank in self._arrived for rank in ranks):
            self.task = asyncio.get_running_loop().create_task(
                self._switch(tuple(ranks)), name="engines change over"
            )
            self.task.add_done_callback(self._ended)

    async def _switch(self, ranks: tuple[int, ...]) -> None:
        try:
            await self._change_over(ranks)
        finally:
            # Here, not in a done callback: between the two the task would be over and yet there.
            self.task = None

    async def _change_over(self, ranks: tuple[int, ...]) -> None:
        for rank in self._ranks:
            # What told an engine to go on is to be answered before it goes.
            await self._handles[rank].idle()
        model = None if self._waves is None else self._waves.model
        self._observer(
            events.GroupSwitched(
                engine=max(ranks),
                before=tuple(self._ranks),
                ranks=ranks,
                running=model is not None and model.running(0),
                wave=0 if model is None else model.wave(0),
                step=0,
            )
        )
        told, self._told, self._arrived = self._told, {}, {}
        self._ranks = dict.fromkeys(ranks)
        for rank, elastic in sorted(told.items()):
            _role, notice = elastic.switched()
            if notice is not None:
                await self._handles[rank].elastic_notice(notice.notice)
            if rank not in self._ranks:
                await self._handles[rank].remove()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
