"""What counts as unfinished, what a step brings, and what memory sleeps."""

from __future__ import annotations

import pytest

from mock_engines.lockstep.memory import Memory
from mock_engines.lockstep.scheduler import PauseState, Row, Scheduler, Work


def loaded(**options):
    """Two requests that run and one that waits."""
    scheduler = Scheduler(batch=2, **options)
    for name in ("a", "b", "c"):
        scheduler.add(Work(name, 3))
    scheduler.step()
    return scheduler


@pytest.mark.parametrize(
    ("pause", "unfinished"),
    [(PauseState.UNPAUSED, 3), (PauseState.NEW, 2), (PauseState.ALL, 0)],
)
def test_unfinished_requests_depend_on_the_pause(pause, unfinished):
    scheduler = loaded()
    scheduler.pause = pause
    assert scheduler.unfinished == unfinished
    assert scheduler.counts == (2, 1)
    assert scheduler.has_work is (unfinished > 0)


def test_requests_run_in_order_of_arrival_and_end_with_length():
    scheduler = Scheduler(batch=1, tokens=2)
    scheduler.add(Work("a", 3, client=4))
    scheduler.add(Work("b", 1))
    assert scheduler.step() == ([Row("a", 4, 2)], True)
    assert scheduler.step() == ([Row("a", 4, 1, "length")], True)
    assert scheduler.step() == ([Row("b", 0, 1, "length")], True)


def test_finished_request_leaves_one_empty_step_behind():
    scheduler = Scheduler()
    scheduler.add(Work("a", 1))
    scheduler.step()
    assert (scheduler.unfinished, scheduler.has_work) == (0, True)
    assert scheduler.step() == ([], False)
    assert not scheduler.has_work


def test_aborted_request_leaves_one_empty_step_behind():
    scheduler = Scheduler()
    scheduler.add(Work("a", 1, client=2))
    assert scheduler.abort(["a", "unknown"]) == [Row("a", 2, 0, "abort")]
    assert scheduler.has_work
    assert scheduler.step() == ([], False)
    assert not scheduler.has_work


def test_abort_of_an_unknown_request_changes_nothing():
    scheduler = Scheduler()
    assert scheduler.abort(["x"]) == []
    assert not scheduler.has_work


def test_paused_new_runs_what_ran_and_takes_up_nothing():
    scheduler = loaded()
    scheduler.pause = PauseState.NEW
    rows, executed = scheduler.step()
    assert [row.request_id for row in rows] == ["a", "b"]
    assert executed


def test_paused_all_runs_nothing():
    scheduler = loaded()
    scheduler.pause = PauseState.ALL
    assert scheduler.step() == ([], False)
    assert scheduler.counts == (2, 1)


def test_preempted_requests_wait_ahead_of_those_that_waited():
    scheduler = loaded()
    scheduler.preempt()
    assert scheduler.counts == (0, 3)
    rows, _executed = scheduler.step()
    assert [row.request_id for row in rows] == ["a", "b"]


@pytest.mark.parametrize(
    ("tags", "left"),
    [
        (None, set()),
        (["weights"], {"kv_cache"}),
        (["kv_cache"], {"weights"}),
        (["weights", "kv_cache"], set()),
        (["kv_cache", "unheard-of"], {"weights", "kv_cache"}),
    ],
)
def test_wake_up_wakes_what_is_named_if_all_of_it_sleeps(tags, left):
    memory = Memory()
    memory.sleep()
    memory.wake(tags)
    assert set(memory.tags) == left


@pytest.mark.parametrize(
    ("sleeps_again", "asleep"), [(True, {"weights", "kv_cache"}), (False, {"kv_cache"})]
)
def test_half_asleep_rank_sleeps_again_since_031(sleeps_again, asleep):
    memory = Memory(sleeps_again=sleeps_again)
    memory.sleep()
    memory.wake(["weights"])
    memory.sleep()
    assert set(memory.tags) == asleep


@pytest.mark.parametrize("sleeps_again", [True, False])
def test_sleep_keeps_a_cache_that_woke_alone_awake(sleeps_again):
    memory = Memory(sleeps_again=sleeps_again)
    memory.sleep()
    memory.wake(["kv_cache"])
    memory.sleep()
    assert memory.tags == ("weights",)
