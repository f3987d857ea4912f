"""A real frontend with mock engines, for one test; skipped where there is no binary."""

from __future__ import annotations

import asyncio

import pytest

from client.aio import with_deadline
from harness.scenario.model import Topology
from harness.targets.vllm_rs.fetch import available
from harness.targets.vllm_rs.frontend import VllmRsFrontend
from harness.targets.vllm_rs.launch import LaunchSpec
from harness.targets.vllm_rs.life import ProcessLife
from tests.support.lab import TIMEOUT_S, EventLab, play_story

TURNS = 20


class Lab(EventLab):
    """One frontend, its engines, and every event so far."""

    def __init__(self, release, topology, engines):
        path = available(release)
        if path is None:
            pytest.skip(f"no binary of the frontend {release}")
        super().__init__(release, topology, engines)
        self.ranks = tuple(topology.rank_list)
        self.life = ProcessLife(
            LaunchSpec(path, release, topology, tuple(topology.frontend_args)),
            profile=self.profile,
            emit=self.emit,
            transport=self.transport,
            environment=topology.frontend_env,
        )
        self.frontend = VllmRsFrontend(
            self.life, topology=topology, profile=self.profile, wait_at=self.gates.wait
        )

    async def start(self):
        await self.frontend.prepare()
        self.join(self.frontend.addresses, waves="script")
        self.cluster.start()
        await self.frontend.start()
        await with_deadline(self.cluster.joined(), TIMEOUT_S)

    def seen(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

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
        await self.end(self.frontend.stop)


@pytest.fixture
def play():
    """Return ``play(release, story, **setup)``, which runs ``await story(lab)``.

    ``engines`` are their behaviours, ``engines_count`` how many there are.
    """

    def run(release, story, *, engines=(), engines_count=None, start=True, **topology):
        if engines_count is not None:
            topology["engines"] = engines_count
        shape = Topology.model_validate(topology)
        return play_story(lambda: Lab(release, shape, engines), story, start=start)

    return run
