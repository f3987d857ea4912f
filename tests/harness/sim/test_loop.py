"""The deterministic loop: order, time, quiet, its ends and its refusals."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref

import pytest

from client.aio import all_done, next_entry
from harness.sim.component import HARNESS
from harness.sim.errors import CallbackFailed, Deadlock, StepLimitExceeded, StuckTask
from harness.sim.loop import AT_ONCE, YOUNG_MAX, Orphan, SimLoop
from harness.sim.unavailable import NotAvailableError
from harness.strategies import make_strategy
from harness.strategies.window import PLUMBING, Window
from harness.tape import Recorder
from mock_engines.activity import Activity
from mock_engines.endpoint import Endpoint


class Script:
    """Answers choices from a list, then 0, and notes what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.options = []
        self.labels = []

    def choose(self, n, labels=None):
        self.options.append(n)
        if labels is not None:
            self.labels.append(list(labels()))
        return self.answers.pop(0) if self.answers else 0


def sim(*answers, **options):
    return SimLoop(Script(*answers), **options)


def loop_now():
    return asyncio.get_running_loop()


async def hop():
    """Give way once."""
    turn = loop_now().create_future()
    loop_now().call_soon(turn.set_result, None)
    await turn


async def pause(seconds):
    over = loop_now().create_future()
    loop_now().call_later(seconds, over.set_result, None)
    await over


async def three(log):
    async def child(name):
        log.append(name)

    tasks = [loop_now().create_task(child(name), name=name) for name in "abc"]
    for task in tasks:
        await task


# --- order and choices ----------------------------------------------------------------------


def test_choice_zero_everywhere_is_asyncios_own_order():
    async def story(log):
        async def child(name, hops):
            for n in range(hops):
                log.append((name, n))
                await hop()

        tasks = [loop_now().create_task(child(n, h)) for n, h in (("a", 3), ("b", 1), ("c", 2))]
        loop_now().call_soon(log.append, "soon")
        for task in tasks:
            await task

    simulated, real = [], []
    sim().run(story(simulated))
    asyncio.run(story(real))
    assert simulated == real
    assert len(real) == 7


def test_chooser_picks_by_index_and_is_asked_only_where_there_is_a_choice():
    log = []
    loop = sim(2, 1)
    loop.run(three(log))
    assert log == ["c", "b", "a"]
    assert loop._chooser.options[:2] == [3, 2]
    assert 1 not in loop._chooser.options


def test_labels_name_tasks_timers_and_callbacks():
    async def story():
        log = []
        loop_now().call_later(0.0015, log.append, 1)
        loop_now().call_later(0.0015, log.append, 2)
        await pause(0.002)
        loop_now().call_soon(log.append, 1)
        child = loop_now().create_task(hop(), name="child")
        nameless = loop_now().create_task(hop())
        await child
        await nameless

    loop = sim(record_labels=True)
    loop.run(story())
    assert loop._chooser.labels[0] == ["timer 1500 us", "timer 1500 us"]
    assert loop._chooser.labels[1] == ["callback list.append", "child", "task-3"]


def test_callbacks_run_in_the_context_of_their_call():
    name = contextvars.ContextVar("name", default="outer")
    seen = []

    async def story():
        name.set("main")
        loop_now().call_soon(lambda: seen.append(name.get()))
        loop_now().call_later(1, lambda: seen.append(name.get()))
        empty = contextvars.Context()
        loop_now().call_soon(lambda: seen.append(name.get()), context=empty)
        name.set("changed")
        await pause(2)

    sim().run(story())
    assert seen == ["main", "outer", "main"]


def test_cancelled_callback_is_no_option_any_more():
    log = []

    async def story():
        handles = [loop_now().call_soon(log.append, n) for n in range(3)]
        handles[1].cancel()
        assert handles[1].cancelled()
        await hop()

    loop = sim()
    loop.run(story())
    assert log == [0, 2]
    assert loop._chooser.options[0] == 3  # two callbacks and the hop


def test_a_callback_with_a_context_of_its_own_runs_in_it_and_is_never_taken_back():
    name = contextvars.ContextVar("name", default="none")
    context = contextvars.copy_context()
    context.run(name.set, "given")
    seen = []

    async def story():
        handle = loop_now().call_soon(lambda: seen.append(name.get()), context=context)
        with pytest.raises(RuntimeError, match="cannot be taken back"):
            handle.cancel()
        await hop()

    sim().run(story())
    assert seen == ["given"]


def test_a_handle_that_is_cancelled_when_its_callback_ran_takes_nothing_else_off_the_list():
    log = []

    async def story():
        handle = loop_now().call_soon(log.append, "one")
        await hop()
        loop_now().call_soon(log.append, "two")
        handle.cancel()
        assert handle.cancelled()
        await hop()

    sim().run(story())
    assert log == ["one", "two"]


# --- time -----------------------------------------------------------------------------------


def test_time_moves_only_to_the_next_timer_and_costs_nothing():
    async def story():
        times = [loop_now().time()]
        for seconds in (0.5, 3600, 0.000001):
            await pause(seconds)
            times.append(loop_now().time())
        return times

    assert sim().run(story()) == [0.0, 0.5, 3600.5, 3600.500001]


def test_timers_due_together_are_options_of_one_choice():
    log = []

    async def story():
        for n in range(3):
            loop_now().call_at(1.0, log.append, n)
        loop_now().call_at(2.0, log.append, "later")
        await pause(3)

    loop = sim(2, 1)
    loop.run(story())
    assert log == [2, 1, 0, "later"]
    assert loop._chooser.options[0] == 3


def test_cancelled_timer_does_not_hold_time_or_the_run():
    async def story():
        guard = loop_now().call_later(600, pytest.fail, "cancelled")
        assert loop_now().pending_timers == 1
        guard.cancel()
        guard.cancel()
        assert loop_now().pending_timers == 0
        await loop_now().create_future()

    loop = sim()
    with pytest.raises(Deadlock):
        loop.run(story())
    assert loop.time() == 0


def test_many_cancelled_timers_are_forgotten():
    async def story():
        for _ in range(5_000):
            loop_now().call_later(600, print).cancel()
        await pause(1)
        return len(loop_now()._clock._queue)

    assert sim().run(story()) < 1_000


def test_timer_of_now_or_the_past_is_ready_at_once():
    log = []

    async def story():
        await pause(1)
        loop_now().call_at(0.5, log.append, "past")
        loop_now().call_later(0, log.append, "now")
        loop_now().call_later(0, log.append, "cancelled").cancel()
        await hop()
        return loop_now().time()

    assert sim().run(story()) == 1.0
    assert log == ["past", "now"]


# --- settled --------------------------------------------------------------------------------


def test_settled_waits_for_all_that_is_ready_and_for_no_time():
    log = []

    async def busy():
        for n in range(5):
            await hop()
            log.append(n)

    async def story():
        loop_now().create_task(busy())
        loop_now().call_later(1, log.append, "timer")
        other = loop_now().create_task(loop_now().settled())
        await loop_now().settled()
        assert log == [0, 1, 2, 3, 4]
        await other
        assert loop_now().time() == 0

    sim().run(story())


def test_cancelled_settled_does_no_harm():
    async def story():
        waiting = loop_now().create_task(loop_now().settled())
        keeper = loop_now().create_task(loop_now().settled())
        await hop()
        waiting.cancel()
        await keeper
        assert waiting.cancelled()

    sim().run(story())


# --- how a run ends -------------------------------------------------------------------------


def test_deadlock_says_who_waits_for_what():
    async def waits_at_the_gate(gate):
        await gate

    async def waits_for(task):
        await task

    async def story():
        gate = loop_now().create_future()
        loop_now().label(gate, "gate g1")
        first = loop_now().create_task(waits_at_the_gate(gate), name="engine 0")
        second = loop_now().create_task(waits_for(first), name="engine 1")
        await waits_for(second)

    with pytest.raises(Deadlock) as caught:
        sim().run(story())
    inner = f"{test_deadlock_says_who_waits_for_what.__name__}.<locals>"
    assert caught.value.waiting == (
        ("main", f"{inner}.waits_for on task engine 1"),
        ("engine 0", f"{inner}.waits_at_the_gate on gate g1"),
        ("engine 1", f"{inner}.waits_for on task engine 0"),
    )
    assert "engine 0: waits in" in str(caught.value)
    assert "3 tasks wait" in str(caught.value)


def test_run_that_never_ends_stops_at_the_step_limit():
    async def spins():
        while True:
            await hop()

    with pytest.raises(StepLimitExceeded, match=r"more than 500 steps.*\n  main: waits in"):
        sim(step_limit=500).run(spins())


def test_tasks_left_over_are_cancelled_and_drained_without_choices():
    log = []

    async def endless(name):
        try:
            await loop_now().create_future()
        finally:
            await hop()
            log.append(name)

    async def story():
        for name in "ab":
            loop_now().create_task(endless(name))
        await hop()

    loop = sim()
    loop.run(story())
    asked = len(loop._chooser.options)
    assert log == ["a", "b"]
    assert asked == 2  # the two new tasks and the hop, and nothing of the drain
    assert loop._live() == []


def test_task_that_survives_its_cancellation_is_reported():
    async def stubborn():
        while True:
            try:
                await loop_now().create_future()
            except asyncio.CancelledError:
                continue

    async def story():
        loop_now().create_task(stubborn(), name="stubborn")
        await hop()

    with pytest.raises(StuckTask) as caught:
        sim().run(story())
    assert [name for name, _ in caught.value.waiting] == ["stubborn"]


def test_end_of_the_run_does_not_hide_the_first_error():
    async def stubborn():
        while True:
            try:
                await loop_now().create_future()
            except asyncio.CancelledError:
                continue

    async def story():
        loop_now().create_task(stubborn(), name="stubborn")
        await hop()
        msg = "first"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="first") as caught:
        sim().run(story())
    assert "stubborn" in caught.value.__notes__[0]


def test_exception_that_nobody_retrieved_is_an_orphan():
    error, late = ValueError("lost"), ValueError("while drained")

    async def fails():
        raise error

    async def fails_late():
        try:
            await loop_now().create_future()
        finally:
            raise late

    async def seen():
        raise error

    async def story():
        loop_now().create_task(fails(), name="fails")
        loop_now().create_task(fails_late(), name="fails late")
        looked_at = loop_now().create_task(seen())
        await hop()
        looked_at.exception()

    loop = sim()
    loop.run(story())
    assert loop.orphans == (Orphan("fails", error, False), Orphan("fails late", late, True))


def test_callback_that_raises_fails_the_run_at_its_end():
    error = ValueError("in a callback")
    log = []

    def boom():
        raise error

    async def story():
        loop_now().call_soon(boom)
        await hop()
        log.append("went on")

    with pytest.raises(CallbackFailed, match="boom raised ValueError") as caught:
        sim().run(story())
    assert caught.value.__cause__ is error
    assert log == ["went on"]


def test_main_tasks_result_and_exception_are_those_of_run():
    async def gives():
        return 7

    async def raises():
        raise KeyError("x")

    assert sim().run(gives()) == 7
    assert sim().run_until_complete(gives()) == 7
    with pytest.raises(KeyError):
        sim().run(raises())


def test_keyboard_interrupt_leaves_the_loop_at_once():
    async def story():
        loop_now().call_soon(interrupt)
        await pause(1)

    def interrupt():
        raise KeyboardInterrupt

    loop = sim()
    with pytest.raises(KeyboardInterrupt):
        loop.run(story())
    assert not loop.is_running()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_collector_is_off_during_a_run_and_as_before_after_it():
    async def story():
        return gc.isenabled()

    assert gc.isenabled()
    assert sim().run(story()) is False
    assert gc.isenabled()


# --- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("call_soon_threadsafe", lambda loop: loop.call_soon_threadsafe(print)),
        ("run_in_executor", lambda loop: loop.run_in_executor(None, print)),
        ("add_reader", lambda loop: loop.add_reader(0, print)),
        ("add_signal_handler", lambda loop: loop.add_signal_handler(2, print)),
        ("sock_recv", lambda loop: loop.sock_recv(None, 1)),
        ("create_connection", lambda loop: loop.create_connection(None)),
        ("subprocess_exec", lambda loop: loop.subprocess_exec(None)),
        ("run_forever", lambda loop: loop.run_forever()),
    ],
)
def test_outside_world_is_refused_by_name(name, call):
    async def story():
        call(loop_now())

    with pytest.raises(NotAvailableError, match=f"{name} is not available in simulation"):
        sim().run(story())


def test_every_method_of_an_event_loop_is_either_made_or_refused():
    base = asyncio.AbstractEventLoop
    inherited = [
        name
        for name in vars(base)
        if not name.startswith("_") and getattr(SimLoop, name) is getattr(base, name)
    ]
    # Setters of handlers that we do not have, and the server helpers of nothing.
    assert sorted(inherited) == ["set_exception_handler"]


def test_thread_helper_of_asyncio_is_refused():
    async def story():
        await asyncio.to_thread(threading.get_ident)

    with pytest.raises(NotAvailableError):
        sim().run(story())


def test_loop_runs_once_at_a_time_and_not_after_close():
    loop = sim()

    async def nested():
        inner = hop()
        with pytest.raises(RuntimeError, match="already running"):
            loop_now().run(inner)
        with pytest.raises(RuntimeError, match="running loop"):
            loop_now().close()

    loop.run(nested())
    loop.close()
    assert loop.is_closed()
    with pytest.raises(RuntimeError, match="closed"):
        loop.run(hop())


def test_task_names_do_not_depend_on_earlier_runs():
    async def story():
        task = loop_now().create_task(hop())
        await task
        return task.get_name()

    assert [sim().run(story()) for _ in range(2)] == ["task-2", "task-2"]


def test_random_schedule_is_a_function_of_its_seed():
    def tape(seed):
        recorder = Recorder(make_strategy("random", seed, 0))
        SimLoop(recorder, record_labels=True).run(three([]))
        return recorder.tape

    assert tape(1) == tape(1)
    assert len({tape(seed).choices for seed in range(20)}) > 3


def test_a_loop_whose_run_is_over_goes_away_without_a_garbage_collection():
    async def story():
        loop_now().call_later(600, print)
        await pause(1)

    loop = sim()
    gc.disable()
    try:
        loop.run(story())
        gone = weakref.ref(loop._clock)
        del loop
        assert gone() is None
    finally:
        gc.enable()


def test_collections_are_rare_once_a_run_was_simulated_and_the_collector_stays_on():
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 11, 12)
        sim().run(hop())
        assert gc.get_threshold() == (YOUNG_MAX, 11, 12)
        gc.set_threshold(YOUNG_MAX + 1, 11, 12)
        sim().run(hop())
        assert gc.get_threshold() == (YOUNG_MAX + 1, 11, 12)
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)


def test_names_of_bookkeeping_are_those_of_functions_that_exist():
    assert {
        "_resolve_after",
        Activity.end.__qualname__,
        Endpoint._task_ended.__qualname__,
    } < AT_ONCE
    assert {f"callback {name}" for name in AT_ONCE} == set(PLUMBING) - {HARNESS}


def test_bookkeeping_of_a_task_that_ended_is_no_entry_of_its_own():
    async def main():
        await all_done([loop_now().create_task(hop_over(), name="t")])

    async def hop_over():
        await next_entry()

    loop = sim()
    loop.run(main())
    # main, the task, the task behind its own yield, main again: nothing stands there to wake it.
    assert loop.steps == 4


def test_bookkeeping_that_raises_is_told_at_the_end():
    def broken(_task):
        raise ZeroDivisionError

    broken.__qualname__ = Activity.end.__qualname__

    async def main():
        task = loop_now().create_task(asyncio_done(), name="t")
        task.add_done_callback(broken)
        await hop()
        await hop()

    with pytest.raises(CallbackFailed, match="ZeroDivisionError"):
        sim().run(main())


async def asyncio_done():
    """End at once."""


@pytest.mark.parametrize("fails", [False, True])
def test_strategy_is_not_asked_about_the_task_that_plays_nor_about_bookkeeping(fails):
    """Whether or not a task has failed, after which bookkeeping stands on the list."""
    asked = []

    class First:
        from_the_start = True

        def begin(self):
            pass

        def attach(self, ready):
            self.ready = ready

        def end(self):
            pass

        def choose(self, n, labels=None):
            asked.append(list(labels()))
            return 0

    async def work(turns):
        for _ in range(turns):
            await next_entry()
        if fails:
            raise ZeroDivisionError

    async def main():
        turns = {"a": 1, "b": 4, "c": 6}
        tasks = [loop_now().create_task(work(turns[name]), name=name) for name in turns]
        await all_done(tasks[:1])  # the others are ready when this one is woken
        await all_done(tasks)
        for task in tasks:
            assert isinstance(task.exception(), ZeroDivisionError) is fails

    SimLoop(Recorder(Window(First())), record_labels=True).run(main())
    assert len(asked) >= 2
    assert {name for names in asked for name in names} == {"a", "b", "c"}


def test_task_that_yields_goes_on_behind_all_that_is_ready():
    log = []

    async def child(name):
        log.append(name)

    async def main():
        for name in "ab":
            loop_now().create_task(child(name), name=name)
        await next_entry()
        log.append("main")

    sim().run(main())
    assert log == ["a", "b", "main"]


def test_asyncio_notes_no_task_of_a_simulated_run_and_all_others_afterwards():
    async def count():
        return len(asyncio.all_tasks())

    assert sim().run(count()) == 0
    loop = asyncio.SelectorEventLoop()
    try:
        assert loop.run_until_complete(count()) == 1
    finally:
        loop.close()
