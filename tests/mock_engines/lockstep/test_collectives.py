"""Ranks meet: who gets what, and when."""

from __future__ import annotations

import pytest

from mock_engines.lockstep.collectives import Collectives, Entered, Stuck


def meet(values, kind="sync"):
    collectives = Collectives(range(len(values)))
    results = {}
    for rank, value in enumerate(values):
        results = collectives.enter(rank, "host", kind, value)
        assert (results == {}) == (rank + 1 < len(values))
    (result,) = set(results.values())
    assert sorted(results) == list(range(len(values)))
    return result


@pytest.mark.parametrize(
    ("values", "anybody", "consensus"),
    [
        ([(False, False), (False, False)], False, False),
        ([(True, False), (False, False)], True, False),
        ([(True, False), (True, False)], True, False),
        ([(False, True), (False, False)], True, False),
        ([(True, True), (False, False)], True, False),
        ([(False, True), (False, True)], False, True),
        ([(True, True), (False, True)], True, True),
        ([(False, True)], False, True),
        ([(False, True), (False, True), (False, False)], True, False),
    ],
)
def test_exchange_ends_the_wave_only_if_nobody_works_and_all_or_none_pause(
    values, anybody, consensus
):
    assert meet(values) == (anybody, consensus)


@pytest.mark.parametrize(("values", "any_"), [([False, False], False), ([False, True], True)])
def test_resume_tells_whether_anybody_has_work(values, any_):
    assert meet(values, "resume") is any_


def test_operation_with_somebody_missing_is_stuck_with_who_waits_and_who_does_not():
    collectives = Collectives([0, 1, 2])
    collectives.enter(2, "host", "sync", (True, False))
    assert collectives.enter(0, "host", "sync", (True, False)) == {}
    waits = (
        Entered(0, "host", "sync", 1, (True, False)),
        Entered(2, "host", "sync", 1, (True, False)),
    )
    assert collectives.stuck() == (Stuck("host", waits, (1,), mismatch=False),)
    assert collectives.waits(2) == waits[1]
    assert collectives.waits(1) is None


def test_different_operations_of_one_group_never_end():
    collectives = Collectives([0, 1])
    collectives.enter(0, "host", "resume", False)
    assert collectives.enter(1, "host", "sync", (False, False)) == {}
    (stuck,) = collectives.stuck()
    assert stuck.mismatch
    assert stuck.missing == ()


def test_groups_do_not_wait_for_each_other():
    collectives = Collectives([0, 1])
    collectives.enter(0, "device", "forward")
    collectives.enter(1, "host", "barrier")
    assert [(s.group, s.missing) for s in collectives.stuck()] == [("device", (1,)), ("host", (0,))]
    assert collectives.enter(1, "device", "forward") == {0: None, 1: None}
    assert collectives.enter(0, "host", "barrier") == {0: None, 1: None}
    assert collectives.stuck() == ()


def test_operations_are_counted_by_group():
    collectives = Collectives([0])
    collectives.enter(0, "device", "forward")
    collectives = Collectives([0, 1])
    for _ in range(2):
        for rank in (0, 1):
            collectives.enter(rank, "device", "forward")
    collectives.enter(0, "device", "forward")
    collectives.enter(1, "host", "sync", (False, False))
    assert (collectives.waits(0).number, collectives.waits(1).number) == (3, 1)


def test_second_operation_of_a_group_at_once_is_refused():
    collectives = Collectives([0, 1])
    collectives.enter(0, "device", "forward")
    with pytest.raises(ValueError, match="rank 0 cannot enter forward"):
        collectives.enter(0, "device", "forward")


def test_stranger_is_refused():
    with pytest.raises(ValueError, match="rank 5 cannot enter forward"):
        Collectives([0, 1]).enter(5, "device", "forward")


def test_rank_that_leaves_frees_those_that_wait_for_it():
    collectives = Collectives([0, 1, 2])
    collectives.enter(0, "host", "sync", (False, True))
    collectives.enter(2, "host", "sync", (False, True))
    assert collectives.leave(1) == {0: (False, True), 2: (False, True)}
    assert collectives.members == (0, 2)


def test_rank_that_joins_is_needed_from_then_on():
    collectives = Collectives([0])
    collectives.join(1)
    assert collectives.enter(0, "device", "forward") == {}
    assert collectives.enter(1, "device", "forward") == {0: None, 1: None}
