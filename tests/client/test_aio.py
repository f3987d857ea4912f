"""The primitives of the shells, on the simulated loop and on stock asyncio."""

from __future__ import annotations

import asyncio

import pytest

from client.aio import (
    Deadline,
    DeadlineExceeded,
    Mailbox,
    MailboxClosed,
    TaskSet,
    Turnstile,
    turn,
    with_deadline,
    within,
)
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy


def on_sim(story, strategy="fifo", seed=0):
    return SimLoop(make_strategy(strategy, seed, 0)).run(story)


def on_stock(story):
    loop = asyncio.SelectorEventLoop()
    try:
        return loop.run_until_complete(story)
    finally:
        loop.close()


@pytest.fixture(params=[on_sim, on_stock], ids=["sim", "stock"])
def run(request):
    return request.param


def spawn(coroutine, name="t"):
    return asyncio.get_running_loop().create_task(coroutine, name=name)


async def turns(count=5):
    for _ in range(count):
        await turn()


async def never():
    await asyncio.get_running_loop().create_future()


async def value_of(value, *, after=0):
    await turns(after)
    if isinstance(value, Exception):
        raise value
    return value


def test_mailbox_hands_out_items_in_order_to_getters_in_order(run):
    async def story():
        box = Mailbox()
        first, second = spawn(box.get()), spawn(box.get())
        await turns()
        for item in "abc":
            box.put(item)
        await turns()
        assert (first.result(), second.result(), await box.get()) == ("a", "b", "c")
        assert len(box) == 0

    run(story())


def test_mailbox_get_cancelled_after_its_wake_up_loses_nothing(run):
    async def story():
        box = Mailbox()
        first, second = spawn(box.get()), spawn(box.get())
        await turns()
        box.put("a")
        first.cancel()  # woken already, and now cancelled in the same turn
        await turns()
        assert first.cancelled()
        assert second.result() == "a"

    run(story())


def test_mailbox_get_ends_at_its_deadline(run):
    async def story():
        box, loop = Mailbox(), asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(DeadlineExceeded):
            await box.get(start + 0.01)
        assert loop.time() >= start + 0.01
        box.put("a")
        assert await box.get(start) == "a"  # what is there is handed out, however late
        getter = spawn(box.get(loop.time() + 60))
        await turns()
        box.put("b")
        assert await getter == "b"

    run(story())


def test_mailbox_get_ends_at_a_deadline_between_two_ticks_of_the_clock():
    async def story():
        deadline = 0.1 + 0.2  # a little more than the 300,000 us at which its timer fires
        with pytest.raises(DeadlineExceeded):
            await Mailbox().get(deadline)
        assert asyncio.get_running_loop().time() < deadline

    on_sim(story())


def test_closed_mailbox_is_emptied_then_refuses(run):
    async def story():
        box = Mailbox()
        getter = spawn(box.get())
        await turns()
        box.close()
        with pytest.raises(MailboxClosed):
            await getter
        with pytest.raises(MailboxClosed):
            box.put("a")
        other = Mailbox()
        other.put("a")
        other.put("b")
        other.close()
        assert await other.get() == "a"
        assert other.take(lambda _: True, 5) == ["b"]
        with pytest.raises(MailboxClosed):
            await other.get()

    run(story())


def test_mailbox_take_stops_at_the_first_item_that_does_not_fit():
    box = Mailbox()
    for item in (1, 2, 30, 4):
        box.put(item)
    assert box.take(lambda item: item < 10, 9) == [1, 2]
    assert box.take(lambda item: True, 1) == [30]
    assert box.clear() == [4]


def test_with_deadline_returns_raises_or_gives_up(run):
    async def story():
        assert await with_deadline(value_of(1), 60) == 1
        assert await with_deadline(value_of(2), None) == 2
        with pytest.raises(ValueError, match="x"):
            await with_deadline(value_of(ValueError("x")), 60)
        with pytest.raises(DeadlineExceeded):
            await with_deadline(never(), 0.01)

    run(story())


def test_with_deadline_keeps_a_result_that_arrives_while_giving_up(run):
    async def story():
        async def late():
            try:
                await never()
            except asyncio.CancelledError:
                return "saved"

        assert await with_deadline(late(), 0.001) == "saved"

    run(story())


def test_with_deadline_cancelled_cancels_what_it_waits_for(run):
    async def story():
        ended = []

        async def inner():
            try:
                await never()
            finally:
                ended.append(1)

        outer = spawn(with_deadline(inner(), 60))
        await turns()
        outer.cancel()
        await turns()
        assert outer.cancelled()
        assert ended == [1]

    run(story())


def test_within_returns_raises_or_gives_up_in_the_task_that_waits(run):
    async def story():
        assert await within(value_of(7, after=2), 60.0) == 7
        with pytest.raises(ZeroDivisionError):
            await within(value_of(ZeroDivisionError(), after=2), 60.0)
        with pytest.raises(DeadlineExceeded):
            await within(never(), 0.001)
        task = asyncio.current_task()
        # A simulated loop knows its tasks itself, and tells asyncio of none.
        alive = {task} if run is on_stock else set()
        assert (task.cancelling(), asyncio.all_tasks()) == (0, alive)
        return await value_of(1, after=2)

    if run is on_stock:
        assert run(story()) == 1
        return
    loop = SimLoop(make_strategy("fifo", 0, 0))
    assert loop.run(story()) == 1
    assert loop.waiting() == ()


def test_within_lets_a_cancellation_from_elsewhere_through(run):
    async def story():
        task = spawn(within(never(), 60.0))
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story())


def test_within_keeps_a_result_that_comes_in_spite_of_the_cancellation(run):
    async def stubborn():
        try:
            await never()
        except asyncio.CancelledError:
            return 7

    async def story():
        assert await within(stubborn(), 0.001) == 7
        assert asyncio.current_task().cancelling() == 0

    run(story())


def test_one_timer_watches_all_waits_of_a_deadline_each_with_its_own_limit():
    async def story():
        loop = asyncio.get_running_loop()
        deadline = Deadline()

        async def wait(seconds, work):
            deadline.begin(seconds)
            try:
                return await work
            except asyncio.CancelledError:
                deadline.check()
                raise
            finally:
                deadline.end()

        for number in range(5):
            assert await wait(10.0, value_of(number, after=1)) == number
            assert loop.pending_timers == 1
        await asyncio.get_running_loop().settled()
        with pytest.raises(DeadlineExceeded):
            await wait(2.0, never())  # sooner than the timer that is set
        assert loop.time() == 2.0
        with pytest.raises(DeadlineExceeded):
            await wait(30.0, never())  # later
        assert loop.time() == 32.0
        deadline.begin(1.0)
        deadline.end()
        deadline.close()
        assert loop.pending_timers == 0

    on_sim(story())


def test_turnstile_is_entered_in_the_order_of_asking(run):
    async def story():
        gate, order = Turnstile(), []

        async def enter(name, hold):
            async with gate:
                await turns(hold)
                order.append(name)

        tasks = [spawn(enter(name, hold)) for name, hold in (("a", 4), ("b", 0), ("c", 0))]
        await turns(1)
        tasks[1].cancel()
        late = spawn(enter("d", 0))
        await turns(12)
        assert order == ["a", "c", "d"]
        assert tasks[1].cancelled()
        assert late.done()
        async with gate:
            pass

    run(story())


def test_turnstile_place_given_to_a_cancelled_task_goes_on_to_the_next(run):
    async def story():
        gate, order = Turnstile(), []

        async def enter(name):
            async with gate:
                order.append(name)

        async with gate:
            first, second = spawn(enter("a")), spawn(enter("b"))
            await turns()
        first.cancel()  # its turn has come, it does not know yet
        await turns()
        assert first.cancelled()
        assert order == ["b"]
        assert second.done()

    run(story())


def test_task_set_reports_faults_and_closes_in_order(run):
    async def story():
        faults, ended = [], []
        tasks = TaskSet(lambda name, error: faults.append((name, str(error))))

        async def loop(name):
            try:
                await never()
            finally:
                ended.append(name)

        tasks.spawn(loop("a"), name="a")
        tasks.spawn(value_of(ValueError("x")), name="b")
        tasks.spawn(loop("c"), name="c")
        await turns()
        assert faults == [("b", "x")]
        assert tasks.names() == ("a", "c")
        await tasks.close()
        assert ended == ["a", "c"]
        assert tasks.names() == ()

    run(story())


def test_task_set_close_cancelled_still_closes_everything(run):
    async def story():
        async def slow():
            try:
                await never()
            finally:
                await turns(4)

        tasks = TaskSet(lambda *_: None)
        for name in "ab":
            tasks.spawn(slow(), name=name)
        await turns()
        closing = spawn(tasks.close())
        await turns(1)
        closing.cancel()
        while not closing.done():
            await turn()
        assert closing.cancelled()
        assert tasks.names() == ()

    run(story())


@pytest.mark.parametrize("seed", range(20))
def test_mailbox_under_random_schedules_delivers_each_item_once(seed):
    async def story():
        box, got = Mailbox(), []

        async def getter():
            while True:
                got.append(await box.get())

        tasks = [spawn(getter(), f"g{n}") for n in range(3)]
        for item in range(9):
            box.put(item)
            if item == 4:
                tasks[0].cancel()
            await turn()
        await turns(10)
        for task in tasks:
            task.cancel()
        await turns()
        assert sorted(got) == list(range(9))

    on_sim(story(), "random", seed)


def test_anything_that_can_be_awaited_has_a_deadline(run):
    async def story():
        loop = asyncio.get_running_loop()
        there: asyncio.Future[str] = loop.create_future()
        loop.call_soon(there.set_result, "a")
        assert await with_deadline(there, 60) == "a"
        late: asyncio.Future[str] = loop.create_future()
        with pytest.raises(DeadlineExceeded):
            await with_deadline(late, 0.01)
        assert late.cancelled()

    run(story())


def test_deadline_that_strikes_with_a_cancellation_from_elsewhere_lets_that_through(run):
    async def story():
        async def stubborn():
            try:
                await never()
            except asyncio.CancelledError:
                asyncio.current_task().cancel()  # as whoever else would in this moment
                raise

        waiting = spawn(within(stubborn(), 0.01))
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled()

    run(story())


def test_deadline_that_has_ended_strikes_nobody_when_its_timer_fires(run):
    async def story():
        deadline, loop = Deadline(), asyncio.get_running_loop()
        deadline.begin(0.01)
        deadline.end()
        with pytest.raises(DeadlineExceeded):
            await within(never(), 0.03)  # longer than the timer of the first
        assert asyncio.current_task().cancelling() == 0
        start = loop.time()
        deadline.begin(0.01)  # and it can begin again
        with pytest.raises(asyncio.CancelledError):
            await never()
        with pytest.raises(DeadlineExceeded):
            deadline.check()
        deadline.end()
        assert loop.time() >= start + 0.01
        deadline.close()

    run(story())
