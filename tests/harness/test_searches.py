"""Searches: which schedules a campaign plays, in which order, and when nothing is left."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise

import pytest

from client.protocol.transport import SocketKind, SocketOptions
from harness.scenario.selection import load_all, select
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from harness.strategies import (
    Limits,
    Seen,
    Strategy,
    UnknownStrategyError,
    make_search,
    searches,
)
from harness.strategies.base import Redundant
from harness.strategies.dfs import DfsSearch
from harness.strategies.held import Held
from harness.strategies.pct import PctStrategy
from harness.strategies.shuffle import Stream, shuffled, spread
from harness.strategies.stall import PATIENCE, StallStrategy
from harness.strategies.window import PLUMBING, Window, window_of
from harness.tape import Recorder, Replayer


class Turn:
    """Lets the others run; nothing but the task itself stands on the ready list for it."""

    def __await__(self):
        yield


def run(strategy, story):
    """Play ``story`` (an async function of a log) once; the log and the tape."""
    log = []
    recorder = Recorder(strategy)
    SimLoop(recorder).run(story(log))
    return log, recorder.tape


async def two_writers(log):
    """Two tasks of three steps each: 20 orders."""

    async def write(name):
        for number in range(3):
            log.append(f"{name}{number}")
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turn.set_result, None)
            await turn

    loop = asyncio.get_running_loop()
    for task in [loop.create_task(write(name)) for name in "ab"]:
        await task


def campaign(search, story, most=100_000):
    """Play until nothing is left; logs in order, and how many schedules were redundant."""
    logs, redundant = [], 0
    while len(logs) < most and (strategy := search.next()) is not None:
        try:
            log, tape = run(strategy, story)
        except Redundant:
            redundant += 1
            continue
        search.saw(Seen(len(tape), hash(tuple(log))))
        logs.append(tuple(log))
    return logs, redundant


# --- names ------------------------------------------------------------------------------------


def test_every_strategy_and_search_can_be_made_by_its_name():
    assert list(searches()) == ["auto", "dfs", "fifo", "pct", "random", "stall"]
    for name, title in searches().items():
        assert title
        assert make_search(name, 1, Limits(schedules=3)).next() is not None


def test_unknown_search_names_the_nearest():
    with pytest.raises(UnknownStrategyError, match="did you mean 'stall'"):
        make_search("stal", 0, Limits())


# --- stalls -----------------------------------------------------------------------------------


def test_no_stall_is_first_in_first_out():
    assert run(StallStrategy(), two_writers)[0] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_stalled_task_runs_once_nothing_else_can():
    log, tape = run(StallStrategy((0,)), two_writers)
    assert log == ["b0", "b1", "b2", "a0", "a1", "a2"]
    again = []
    SimLoop(Replayer(tape, strict=True)).run(two_writers(again))
    assert again == log


def test_two_stalls_hold_two_back_at_once():
    async def three(log):
        async def write(name):
            log.append(name)

        for task in [asyncio.get_running_loop().create_task(write(name)) for name in "abc"]:
            await task

    assert run(StallStrategy((0,)), three)[0] == ["b", "c", "a"]
    assert run(StallStrategy((0, 1)), three)[0] == ["b", "a", "c"]


def test_what_is_held_runs_in_the_end_although_others_never_stop():
    async def story(log):
        done = []

        async def waited_for():
            done.append(True)

        async def waits_in_circles():
            while not done:
                log.append("again")
                await Turn()

        loop = asyncio.get_running_loop()
        for task in [
            loop.create_task(waited_for()),
            *map(loop.create_task, [waits_in_circles(), waits_in_circles()]),
        ]:
            await task

    log, tape = run(StallStrategy((0,)), story)
    assert PATIENCE / 2 < len(log) < 2 * PATIENCE
    again = []
    SimLoop(Replayer(tape)).run(story(again))
    assert again == log


def test_what_is_held_can_be_taken_back_as_the_entry_itself():
    def entry():
        return 7

    ready = [Held(entry)]
    assert ready[0]() == 7
    assert ready[0].label.endswith("entry")
    ready.remove(entry)
    assert ready == []


def test_cancelled_callback_that_is_held_is_no_option_any_more():
    async def story(log):
        loop = asyncio.get_running_loop()
        handle = loop.call_soon(log.append, "held")
        loop.call_soon(log.append, "other")
        loop.call_soon(handle.cancel)
        turn = loop.create_future()
        loop.call_later(1, turn.set_result, None)
        await turn

    assert run(StallStrategy((0,)), story)[0] == ["other"]


def test_stall_search_plays_fifo_then_each_place_once_then_pairs():
    search = make_search("stall", 5, Limits(stalls=2))
    made = []
    while (strategy := search.next()) is not None:
        made.append(strategy.at)
        _, tape = run(strategy, two_writers)
        search.saw(Seen(len(tape)))
    assert search.finished
    assert made[0] == ()
    assert len(set(made)) == len(made)
    lengths = [len(at) for at in made]
    assert lengths == sorted(lengths)
    assert sorted(at for at in made if len(at) == 1) == [
        (place,) for place in range(len(run(StallStrategy(), two_writers)[1]))
    ]
    assert all(first < second for at in made if len(at) == 2 for first, second in pairwise(at))
    assert lengths.count(2) > lengths.count(1) // 2


def test_seed_shuffles_the_places_and_repeats_them():
    def order(seed):
        search = make_search("stall", seed, Limits(stalls=1))
        made = []
        while (strategy := search.next()) is not None:
            made.append(strategy.at)
            search.saw(Seen(12))
        return made

    assert order(3) == order(3)
    assert order(3) != order(4)
    assert sorted(order(3)) == sorted(order(4))


def test_each_task_is_left_out_once_before_one_is_a_second_time():
    """A flood of messages to one of them must not use up the schedules."""
    places = ("flood",) * 90 + ("a", "b", "a") + ("flood",) * 90
    firsts = set()
    for seed in range(10):
        search = make_search("stall", seed, Limits(stalls=1))
        search.next()
        search.saw(Seen(len(places), places=places))
        order = []
        while (strategy := search.next()) is not None:
            order.append(strategy.at[0])
            search.saw(Seen(len(places)))
        assert sorted(order) == list(range(len(places)))
        assert {places[place] for place in order[:3]} == {"flood", "a", "b"}
        assert {places[place] for place in order[3:5]} == {"flood", "a"}
        firsts.add(order[0])
    assert len(firsts) > 3


def test_crowd_of_callers_counts_as_one_of_its_sort():
    places = (*(f"op c{number}" for number in range(50)), "engine 0: add", "engine 1: add")
    search = make_search("stall", 0, Limits(stalls=1))
    search.next()
    search.saw(Seen(len(places), places=places))
    order = [places[search.next().at[0]] for _ in range(4)]
    assert {name.split()[0] for name in order[:2]} == {"op", "engine"}
    assert {name for name in order if name.startswith("engine")} == set(places[-2:])


def test_patience_with_a_stall_is_its_own_and_not_what_an_earlier_one_left():
    later = PATIENCE + 5
    strategy = StallStrategy((0, later))
    strategy.begin()
    ready = [print, repr]
    strategy.attach(ready)
    assert strategy.choose(2) == 1
    ready[:] = [print, repr]  # what was left out has run
    assert [strategy.choose(2) for _ in range(1, later)] == [0] * (later - 1)
    assert strategy.choose(2) == 1


def test_schedule_notes_what_each_stall_would_leave_out():
    strategy = StallStrategy(note=True)
    _, tape = run(strategy, two_writers)
    assert len(strategy.places) == len(tape)
    assert len(set(strategy.places)) > 1
    silent = StallStrategy((1,))
    run(silent, two_writers)
    assert silent.places == []


@pytest.mark.parametrize(("schedules", "noted"), [(21, False), (22, True)])
def test_auto_takes_note_only_of_what_a_second_stall_could_be(schedules, noted):
    """A run in FIFO order and twenty single stalls: with one schedule more there is a pair."""
    search = make_search("auto", 0, Limits(schedules=schedules))
    notes = []
    for _ in range(schedules):
        strategy = search.next()
        notes.append(strategy._note)
        search.saw(Seen(20))
    assert notes[:21] == [True] + [noted] * 20
    assert len(strategy.at) == 1 + noted


def test_further_stall_that_changes_no_order_is_not_played():
    async def three(log):
        async def write(name):
            for number in range(2):
                log.append(f"{name}{number}")
                await Turn()

        for task in [asyncio.get_running_loop().create_task(write(name)) for name in "abc"]:
            await task

    fewer, more, empty = set(), set(), 0
    for played, notes in ((fewer, True), (more, False)):
        search = make_search("stall", 0, Limits(stalls=3))
        while (strategy := search.next()) is not None:
            log, tape = run(strategy, three)
            played.add((strategy.at, tuple(log)))
            places = tuple(strategy.places) if notes else ()
            empty += places.count("")
            search.saw(Seen(len(tape), places=places))
    assert empty > 0
    assert 0 < len(more - fewer) <= empty
    assert {log for _, log in fewer} == {log for _, log in more}


def test_schedule_without_stalls_notes_where_they_could_be_only_if_asked():
    assert make_search("stall", 0, Limits(stalls=2)).next()._note
    assert not make_search("stall", 0, Limits(stalls=0)).next()._note


def test_spread_yields_each_item_once_and_follows_its_seed():
    kinds = [("x" if number % 3 else "y", str(number % 2)) for number in range(30)]
    orders = [tuple(spread(range(30), kinds, seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order) == list(range(30)) for order in orders)


def test_shuffled_yields_each_item_once_and_every_order():
    assert sorted(shuffled(range(50), 9)) == list(range(50))
    orders = {tuple(shuffled("abc", seed)) for seed in range(200)}
    assert len(orders) == 6


def test_stream_is_pinned():
    stream = Stream(7)
    assert [stream.below(1000) for _ in range(4)] == PINNED


PINNED = [950, 879, 901, 61]


# --- PCT --------------------------------------------------------------------------------------


def test_pct_repeats_itself_and_differs_between_schedules():
    one = [run(PctStrategy(1, k, horizon=12), two_writers)[0] for k in range(30)]
    two = [run(PctStrategy(1, k, horizon=12), two_writers)[0] for k in range(30)]
    assert one == two
    assert len({tuple(log) for log in one}) > 5


def test_pct_of_depth_one_runs_a_task_to_its_end():
    async def two_writers(log):
        async def write(name):
            for number in range(3):
                log.append(f"{name}{number}")
                await Turn()

        for task in [asyncio.get_running_loop().create_task(write(name)) for name in "ab"]:
            await task

    logs = {tuple(run(PctStrategy(2, k, horizon=12, depth=1), two_writers)[0]) for k in range(20)}
    assert all(len({name[0] for name in log[:3]}) == 1 for log in logs)
    assert len(logs) == 2


def test_pct_change_points_are_not_sorted():
    changes = [PctStrategy(0, k, horizon=50, depth=4)._changes for k in range(40)]
    orders = {tuple(sorted(change, key=change.get)) == tuple(sorted(change)) for change in changes}
    assert orders == {True, False}


def test_pct_lets_a_task_run_in_the_end_that_another_would_starve_for_ever():
    async def one_waits_for_the_other(log):
        done = []

        async def polls():
            while not done:
                await Turn()

        async def ends():
            await Turn()
            done.append(True)

        for task in [asyncio.get_running_loop().create_task(each()) for each in (polls, ends)]:
            await task
        log.append("over")

    logs = [
        run(PctStrategy(3, k, horizon=5, depth=1), one_waits_for_the_other)[0] for k in range(8)
    ]
    assert logs == [["over"]] * 8


def test_pct_measures_the_horizon_by_a_first_in_first_out_run():
    search = make_search("pct", 0, Limits(depth=2))
    first = search.next()
    assert run(first, two_writers)[0] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    search.saw(Seen(40))
    places = {place for _ in range(60) for place in search.next()._changes}
    assert max(places) >= 35
    assert min(places) < 5


# --- auto -------------------------------------------------------------------------------------


def test_auto_plays_fifo_singles_pairs_and_the_portfolio():
    search = make_search("auto", 0, Limits(schedules=100))
    kinds = []
    for _ in range(100):
        strategy = search.next()
        kinds.append(len(strategy.at) if isinstance(strategy, StallStrategy) else strategy.name)
        search.saw(Seen(20))
    assert kinds[0] == 0
    assert kinds[1:21] == [1] * 20
    assert kinds[21:60].count(2) >= 38
    assert {"random", "pct"} == set(kinds[62:])


def test_auto_goes_on_for_ever_and_needs_no_contested_step():
    search = make_search("auto", 0, Limits(schedules=10))
    for _ in range(10):
        assert search.next() is not None
        search.saw(Seen(0))


# --- exhaustive -------------------------------------------------------------------------------


def test_dfs_plays_every_order_once():
    """Both writers belong to one part, so every order counts."""
    search = DfsSearch()
    logs, redundant = campaign(search, two_writers)
    orders = set(logs)
    assert search.finished
    assert redundant == 0
    # Nothing of 3 + 3 steps is missing: 6 over 3.
    assert len(orders) == 20
    assert re.match(
        r"all [\d,]+ schedules of this scenario hold, 20 distinct", search.told(held=True)
    )
    assert "were played" in search.told(held=False)


async def two_engines(log):
    """The same, but the writers are two engines, whose steps do not meet."""

    async def write(name):
        for number in range(3):
            parts[name].append(number)
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turn.set_result, None)
            await turn

    loop = asyncio.get_running_loop()
    parts = {"engine 0": [], "engine 1": []}
    tasks = [loop.create_task(write(name), name=f"{name}: works") for name in parts]
    for task in tasks:
        await task
    log.extend((name, *numbers) for name, numbers in parts.items())


def test_dfs_leaves_out_orders_of_what_does_not_meet():
    whole = campaign(DfsSearch(), two_writers)[0]
    reduced = campaign(DfsSearch(), two_engines)[0]
    assert len(reduced) < len(whole) / 5
    assert len(set(reduced)) == 1


async def over_links(log, recorder):
    """Two engines answer two messages each; what each part saw, in its own order."""
    loop = asyncio.get_running_loop()
    links = SimTransport(loop)
    down, up = links.endpoint("input"), links.endpoint("output")
    router = await links.bind(SocketKind.ROUTER, down)
    pull = await links.bind(SocketKind.PULL, up)
    seen = {"client": [], "engine 0": [], "engine 1": []}

    async def engine(rank):
        options = SocketOptions(identity=bytes([rank, 0]))
        dealer = await links.connect(SocketKind.DEALER, down, options)
        push = await links.connect(SocketKind.PUSH, up)
        await push.send([b"here"])
        await dealer.send([b"here"])
        seen[f"engine {rank}"].append(await dealer.recv())
        await push.send([bytes([rank])])

    tasks = [loop.create_task(engine(rank), name=f"engine {rank}: works") for rank in (0, 1)]
    peers = [(await router.recv())[0] for _ in tasks]
    for _ in tasks:
        await pull.recv()
    recorder.steps_begin()
    for peer in peers:
        await router.send([peer, b"go"])
    for _ in tasks:
        seen["client"].append(await pull.recv())
    recorder.steps_end()
    for task in tasks:
        await task
    links.close()
    log.extend((name, repr(what)) for name, what in seen.items())


async def in_a_task(story):
    """Play a story beside the task that plays steps, whose moments are no choice."""
    await asyncio.get_running_loop().create_task(story, name="op a")


def explored(search):
    """Play ``over_links`` until nothing is left; each schedule's log."""
    logs = []
    while (strategy := search.next()) is not None:
        window, log = Window(strategy), []
        recorder = Recorder(window)
        try:
            SimLoop(recorder).run(in_a_task(over_links(log, recorder)))
        except Redundant:
            continue
        search.saw(Seen(window.asked, hash(tuple(log))))
        logs.append(tuple(log))
    return logs


def test_reduced_search_reaches_every_history_that_the_whole_one_does():
    whole, reduced = explored(DfsSearch(reduce=False)), explored(DfsSearch())
    assert set(reduced) == set(whole)
    assert len(set(reduced)) == 2
    assert len(reduced) <= len(whole) / 5


def test_dfs_says_how_far_it_got():
    search = DfsSearch()
    campaign(search, two_writers, most=3)
    assert not search.finished
    assert search.told(held=True) == "3 schedules played, not all; 1 distinct history"


# --- where a strategy is asked ------------------------------------------------------------------


class Last(Strategy):
    """Takes the last of all options, whatever they are."""

    def choose(self, n, labels=None):
        return n - 1


def marked(strategy, names=()):
    """Play two writers whose middle third is the scenario's; the log and how often it was asked."""
    window = Window(strategy, names)
    recorder = Recorder(window)
    log = []

    async def story(log):
        loop = asyncio.get_running_loop()

        async def write(name):
            for number in range(3):
                if (name, number) == ("a", 1):
                    recorder.steps_begin()
                if (name, number) == ("a", 2):
                    recorder.steps_end()
                log.append(f"{name}{number}")
                await Turn()

        for task in [loop.create_task(write(name), name=name) for name in "abc"]:
            await task

    SimLoop(recorder).run(story(log))
    return log, window.asked


def test_strategy_is_asked_between_first_step_and_end_alone():
    log, asked = marked(Last())
    assert log[:4] == ["a0", "b0", "c0", "a1"]
    assert log[4:] != ["b1", "c1", "a2", "b2", "c2"]
    assert asked > 0
    assert log[-3:] != ["a2", "b2", "c2"]


def test_strategy_that_wants_the_start_is_asked_from_there():
    class Early(Last):
        from_the_start = True

    assert marked(Early())[0][0] == "c0"


def test_order_of_what_is_not_named_stays_first_in_first_out():
    log, asked = marked(Last(), ["c", "x*"])
    assert [name for name in log if name[0] != "c"] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert asked == 0
    log, asked = marked(Last(), ["a", "c"])
    assert asked > 0


def test_named_task_that_is_held_stays_behind_the_others():
    log, _ = marked(StallStrategy((0,)), ["a", "c"])
    assert log != marked(StallStrategy(), ["a", "c"])[0]


def test_window_that_begins_again_forgets_what_it_counted():
    window = Window(Last())
    window.attach([Entry("op a"), Entry("op b")])
    window.steps_begin()
    assert window.choose(2) == 1
    window.begin()
    assert (window.asked, window.choose(2)) == (0, 0)


class Entry:
    """Stands on a ready list, and does nothing."""

    def __init__(self, label):
        self.label = label


@pytest.mark.parametrize("label", PLUMBING)
def test_plumbing_runs_as_soon_as_it_can_and_is_no_choice(label):
    window = Window(Last())
    window.steps_begin()
    window.attach([Entry("op a"), Entry(label), Entry("op b")])
    assert (window.choose(3), window.asked) == (1, 0)
    window.attach([Entry("op a"), Entry("op b")])
    assert (window.choose(2), window.asked) == (1, 1)


def test_scenario_whose_startup_fails_is_explored_from_its_beginning():
    (loaded,) = load_all(select(["handshake/registration-never-comes"]))
    (other,) = load_all(select(["lifecycle/control-message-on-the-output-path"]))
    assert window_of(loaded.scenario, StallStrategy()).from_the_start
    assert not window_of(other.scenario, StallStrategy()).from_the_start
    window = window_of(loaded.scenario, Last())
    window.begin()
    window.attach([Entry("op a"), Entry("op b")])
    assert (window.choose(2), window.asked) == (1, 1)
