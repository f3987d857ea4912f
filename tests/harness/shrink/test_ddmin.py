"""The fewest items that still fail."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.shrink.budget import Budget
from harness.shrink.ddmin import minimised


@given(st.integers(1, 40), st.data())
def test_only_what_is_needed_is_left(size, data):
    needed = data.draw(st.sets(st.integers(0, size - 1)))
    kept = minimised(range(size), lambda items: needed <= set(items))
    assert kept == sorted(needed)


def test_what_depends_on_each_other_is_left_one_minimal():
    def fails(items):
        return len(items) % 2 == 0 and len(items) > 2

    kept = minimised(range(12), fails)
    assert fails(kept)
    assert not any(fails(kept[:n] + kept[n + 1 :]) for n in range(len(kept)))


def test_nothing_to_leave_out_asks_nothing():
    assert minimised([], lambda _: True) == []


# --- how much may be tried ------------------------------------------------------------------


def test_budget_is_spent_once_its_runs_are():
    budget = Budget(2)
    told = []
    budget.watch = told.append
    budget.take()
    assert (budget.spent, budget.left) == (False, 1)
    budget.take()
    assert (budget.spent, budget.left, told) == (True, 0, [1, 2])


def test_budget_is_spent_once_its_time_is():
    now = [10.0]
    budget = Budget(100, 5.0, clock=lambda: now[0])
    assert not budget.spent
    now[0] = 15.0
    assert budget.spent


def test_share_of_a_budget_counts_in_the_whole():
    budget = Budget(5)
    part = budget.share(3)
    for _ in range(3):
        part.take()
    assert (part.spent, budget.used, budget.left) == (True, 3, 2)
    assert budget.share(10).left == 2
