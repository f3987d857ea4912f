"""Named gates."""

import asyncio
import contextlib

from harness.sim.loop import SimLoop
from mock_engines.aio import next_entry, next_turn
from mock_engines.gates import Gates


class Fifo:
    def choose(self, n, labels=None):
        return 0


def run(story):
    loop = SimLoop(Fifo())
    loop.run(story(loop))
    assert loop.orphans == ()


def test_gate_that_nobody_named_can_be_opened_and_then_lets_pass():
    async def story(loop):
        gates = Gates()
        gates.open("later")
        await gates.wait("later")
        assert gates.is_open("later")
        assert not gates.is_open("other")

    run(story)


def test_open_releases_waiters_in_order_and_marks_them_before_they_run():
    async def story(loop):
        gates, log = Gates(), []

        async def wait(name):
            await gates.wait("g", lambda: log.append(f"{name} released"))
            log.append(f"{name} passed")

        tasks = [loop.create_task(wait(name)) for name in "ab"]
        await loop.settled()
        assert gates.waiting("g") == 2
        gates.open("g")
        assert log == ["a released", "b released"]
        assert gates.waiting("g") == 0
        for task in tasks:
            await task
        assert log[2:] == ["a passed", "b passed"]

    run(story)


def test_cancelled_waiter_is_counted_no_more():
    async def story(loop):
        gates = Gates()
        task = loop.create_task(gates.wait("g"))
        await loop.settled()
        task.cancel()
        await loop.settled()
        assert gates.waiting("g") == 0
        assert gates.waited_for() == ()

    run(story)


def test_open_all_opens_gates_of_the_future_too_and_reports_those_in_use():
    async def story(loop):
        gates, opened = Gates(), []
        gates.on_open(opened.append)
        task = loop.create_task(gates.wait("b"))
        await loop.settled()
        gates.open_all()
        gates.open_all()
        await task
        await gates.wait("never named")
        assert opened == ["b", "*"]
        assert gates.opened() == ("b", "*")

    run(story)


def test_open_twice_is_reported_once():
    gates, opened = Gates(), []
    gates.on_open(opened.append)
    gates.open("g")
    gates.open("g")
    assert opened == ["g"]


def test_remote_waiters_count_until_they_leave():
    gates = Gates()
    gates.count_remote("g", 1)
    assert (gates.waiting("g"), gates.waited_for()) == (1, ("g",))
    gates.count_remote("g", -1)
    assert (gates.waiting("g"), gates.waited_for()) == (0, ())


def test_wait_cancelled_in_the_turn_in_which_the_gate_opens_loses_nothing():
    async def story(loop):
        gates = Gates()
        task = loop.create_task(gates.wait("g"))
        await loop.settled()
        gates.open("g")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert gates.waiting("g") == 0

    run(story)


def test_gate_that_opens_in_the_turn_in_which_a_waiter_left_lets_the_others_pass():
    async def story(loop):
        gates, passed = Gates(), []
        leaves, stays = (
            loop.create_task(gates.wait("g", lambda n=n: passed.append(n))) for n in "ab"
        )
        await loop.settled()
        leaves.cancel()
        gates.open("g")
        await loop.settled()
        assert leaves.cancelled()
        assert stays.done()
        assert passed == ["b"]

    run(story)


def test_turn_that_is_cancelled_in_the_moment_in_which_it_comes_harms_nobody():
    async def story(loop):
        task = loop.create_task(next_turn())
        await next_entry()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await loop.settled()
        assert task.cancelled()

    run(story)
