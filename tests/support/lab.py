"""What the labs of real and of reference frontends share: events, waiting, tasks, a story."""

from __future__ import annotations

import asyncio

from client.aio import cancel_and_wait, with_deadline
from client.protocol.profiles import profile_for
from client.transports.sockets import ZmqTransport
from mock_engines.behaviours.model import EngineSpec
from mock_engines.cluster import Cluster
from mock_engines.gates import Gates

TIMEOUT_S = 60.0


class EventLab:
    """Mock engines, the tasks of a story, and every event so far.

    Attributes:
        cluster: the engines, once ``join`` made them.
    """

    def __init__(self, release, topology, engines):
        self.events = []
        self.gates = Gates()
        self.topology = topology
        self.transport = ZmqTransport(scheme="ipc")
        self.cluster = None
        self.tasks = []
        self.profile = profile_for(release)
        self._specs = [EngineSpec.model_validate(spec) for spec in engines]
        self._watchers = []

    def emit(self, event):
        self.events.append(event)
        for watcher in list(self._watchers):
            watcher(event)

    def join(self, addresses, *, waves):
        """Make the engines; ``cluster.start()`` lets them come."""
        self.cluster = Cluster(
            self.transport,
            self.profile,
            tuple(self.topology.rank_list),
            self._specs,
            addresses,
            waves=waves,
            gates=self.gates,
            observer=self.emit,
            real_peer=True,
        )

    def spawn(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.append(task)
        return task

    async def until(self, fits, count=1):
        """Wait until ``count`` events fit, by a predicate or a type; return all that do."""
        if isinstance(fits, type):
            kind = fits

            def fits(event):
                return isinstance(event, kind)

        enough = asyncio.get_running_loop().create_future()

        def look(_event=None):
            if sum(map(fits, self.events)) >= count and not enough.done():
                enough.set_result(None)

        self._watchers.append(look)
        look()
        try:
            await with_deadline(enough, TIMEOUT_S)
        finally:
            self._watchers.remove(look)
        return [event for event in self.events if fits(event)]

    async def end(self, *closing):
        """Cancel tasks, close what is given in order, then the engines and the transport."""
        await cancel_and_wait(self.tasks)
        for close in closing:
            await close()
        if self.cluster is not None:
            await self.cluster.stop()
        self.transport.close()


def play_story(make_lab, story, *, start):
    """Run ``await story(lab)`` in a loop of its own; the lab is stopped whatever happens."""

    async def main():
        lab = make_lab()
        try:
            if start:
                await lab.start()
            return await story(lab)
        finally:
            await lab.stop()

    return asyncio.run(main())
