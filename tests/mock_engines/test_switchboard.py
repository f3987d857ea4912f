"""Engines that do not step together change over when all are there, and what can go wrong then."""

from __future__ import annotations

import asyncio

import pytest

from harness.sim.loop import SimLoop
from harness.strategies import make_strategy
from mock_engines import aio, events
from mock_engines.elastic import Switchboard
from mock_engines.lockstep.elastic import COMMIT_METHOD, PREPARE_METHOD, Elastic


class Handle:
    """An engine that is idle when its gate opens, and notes what it is told."""

    def __init__(self, log, rank, fails):
        self.log, self.rank, self.fails = log, rank, fails
        self.gate = asyncio.get_running_loop().create_future()

    async def idle(self):
        await self.gate

    async def elastic_notice(self, notice):
        if self.fails:
            raise ConnectionError("the socket is gone")
        self.log.append((self.rank, notice))

    async def remove(self):
        self.log.append((self.rank, "removed"))


class Board:
    """A switchboard of two engines, with room for a third."""

    def __init__(self, *, fails=False):
        self.log, self.seen, self.failures = [], [], []
        self.handles = {rank: Handle(self.log, rank, fails) for rank in range(3)}
        self.board = Switchboard((0, 1), self.handles, None, self.seen.append, self.failures.append)

    def told(self, rank, size, *, leaves=False, commit=True):
        elastic = Elastic(rank)
        place = -2 if leaves else -1
        request = {"new_data_parallel_size": size, "new_data_parallel_rank": place}
        elastic.answer(PREPARE_METHOD, (request,))
        if commit and not leaves:
            elastic.answer(COMMIT_METHOD, ())
        self.board.told(rank, elastic)

    def open(self):
        for handle in self.handles.values():
            if not handle.gate.done():
                handle.gate.set_result(None)


@pytest.fixture
def play():
    def run(story, **parts):
        loop = SimLoop(make_strategy("fifo", 0, 0))
        made = []

        async def main():
            made.append(Board(**parts))
            await story(made[0], loop)

        loop.run(main())
        return made[0]

    return run


def switches(made):
    return [(event.before, event.ranks) for event in made.seen]


def test_engines_change_over_once_all_were_told_and_the_new_one_came(play):
    async def story(made, loop):
        made.open()
        made.told(0, 3)
        made.told(1, 3, commit=False)
        await loop.settled()
        assert made.board.task is None
        made.told(1, 3)
        await loop.settled()
        assert made.board.task is None  # the third is not there yet
        made.board.arrived(2)
        await loop.settled()

    made = play(story)
    assert switches(made) == [((0, 1), (0, 1, 2))]
    assert made.log == [(0, "RECONFIGURE_FINISHED")]
    assert isinstance(made.seen[0], events.GroupSwitched)


def test_engines_that_were_told_different_sizes_do_not_change_over(play):
    async def story(made, loop):
        made.open()
        made.told(0, 3)
        made.told(1, 4)
        made.board.arrived(2)
        await loop.settled()
        assert made.board.task is None

    assert switches(play(story)) == []


def test_change_that_is_under_way_is_not_begun_a_second_time(play):
    async def story(made, loop):
        made.told(0, 1)
        made.told(1, 1, leaves=True)
        task = made.board.task
        made.board.arrived(2)
        assert made.board.task is task
        made.open()
        await loop.settled()

    made = play(story)
    assert switches(made) == [((0, 1), (0,))]
    assert made.log == [(0, "RECONFIGURE_FINISHED"), (1, "SHUTDOWN_COMPLETE"), (1, "removed")]


def test_change_that_cannot_be_told_is_a_failure_of_the_run(play):
    async def story(made, loop):
        made.open()
        made.told(0, 1)
        made.told(1, 1, leaves=True)
        await loop.settled()
        assert made.board.task is None

    made = play(story, fails=True)
    assert [str(error) for error in made.failures] == ["the socket is gone"]


def test_change_that_is_cancelled_is_no_failure(play):
    async def story(made, loop):
        made.told(0, 1)
        made.told(1, 1, leaves=True)
        await loop.settled()
        task = made.board.task
        task.cancel()
        await aio.ended([task])
        assert made.board.task is None

    made = play(story)
    assert (made.failures, switches(made)) == ([], [])
