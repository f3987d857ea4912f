"""A real frontend with mock engines, for one test; skipped where there is no binary."""

from __future__ import annotations

import asyncio

import pytest

from client.aio import cancel_and_wait, with_deadline
from client.protocol.profiles import profile_for
from client.transports.sockets import ZmqTransport
from harness.scenario.model import Topology
from harness.targets.vllm_rs.fetch import available
from harness.targets.vllm_rs.frontend import VllmRsFrontend
from harness.targets.vllm_rs.launch import LaunchSpec
from harness.targets.vllm_rs.life import ProcessLife
from mock_engines.behaviours.model import EngineSpec
from mock_engines.cluster import Cluster
from mock_engines.gates import Gates

TIMEOUT_S = 30.0
TURNS = 20


class Lab:
    """One frontend, its engines, and every event so far."""

    def __init__(self, release, topology, engines):
        path = available(release)
        if path is None:
            pytest.skip(f"no binary of the frontend {release}")
        self.events = []
        self._watchers = []
        self.gates = Gates()
        self.ranks = tuple(topology.rank_list)
        self._topology = topology
        self._specs = [EngineSpec.model_validate(spec) for spec in engines]
        self._profile = profile_for(release)
        self.transport = ZmqTransport(scheme="ipc")
        spec = LaunchSpec(path, release, topology, tuple(topology.frontend_args))
        self.life = ProcessLife(
            spec,
            profile=self._profile,
            emit=self.emit,
            transport=self.transport,
            environment=topology.frontend_env,
        )
        self.frontend = VllmRsFrontend(
            self.life, topology=topology, profile=self._profile, wait_at=self.gates.wait
        )
        self.cluster = None
        self.tasks = []

    def emit(self, event):
        self.events.append(event)
        for watcher in list(self._watchers):
            watcher(event)

    async def start(self):
        await self.frontend.prepare()
        self.cluster = Cluster(
            self.transport,
            self._profile,
            self.ranks,
            self._specs,
            self.frontend.addresses,
            waves="script",
            gates=self.gates,
            observer=self.emit,
            real_peer=True,
        )
        self.cluster.start()
        await self.frontend.start()
        await with_deadline(self.cluster.joined(), TIMEOUT_S)

    def spawn(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.append(task)
        return task

    def seen(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, kind, count=1):
        """Wait until ``count`` events of a kind have been seen."""
        enough = asyncio.get_running_loop().create_future()

        def look(_event=None):
            if len(self.seen(kind)) >= count and not enough.done():
                enough.set_result(None)

        self._watchers.append(look)
        look()
        try:
            await with_deadline(enough, TIMEOUT_S)
        finally:
            self._watchers.remove(look)

    async def fence(self):
        """As the harness fences: twice, and the loop's ready callbacks run."""
        for _ in range(2):
            await self.cluster.idle()
            await self.frontend.fence(self.ranks)
            for _ in range(TURNS):
                turn = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(turn.set_result, None)
                await turn

    async def stop(self):
        await cancel_and_wait(self.tasks)
        await self.frontend.stop()
        if self.cluster is not None:
            await self.cluster.stop()
        self.transport.close()


@pytest.fixture
def play():
    """Return ``play(release, story, **setup)``, which runs ``await story(lab)``.

    ``engines`` are their behaviours, ``engines_count`` how many there are.
    """

    def run(release, story, *, engines=(), engines_count=None, start=True, **topology):
        if engines_count is not None:
            topology["engines"] = engines_count

        async def main():
            lab = Lab(release, Topology.model_validate(topology), engines)
            try:
                if start:
                    await lab.start()
                return await story(lab)
            finally:
                await lab.stop()

        return asyncio.run(main())

    return run
