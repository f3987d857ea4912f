"""Shards and the quick part: the same everywhere, and nothing is lost between them."""

from __future__ import annotations

import pytest

from harness.subsets import (
    QUICK_CELL_S,
    QUICK_TOTAL_S,
    START_S,
    estimated_s,
    in_shard,
    quick,
    shard_of,
)
from tests.support.collection import every_scenario
from tests.support.stories import load

FENCE = "steps:\n  - fence: true\n"
BUILTIN = every_scenario()


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 200])
def test_shards_together_are_everything_and_share_nothing(shards: int) -> None:
    parts = [shard_of(BUILTIN, shard, shards) for shard in range(1, shards + 1)]
    ids = [one.id for part in parts for one in part]
    assert sorted(ids) == sorted(one.id for one in BUILTIN)


def test_shard_keeps_the_order_and_spreads_the_scenarios() -> None:
    sizes = [len(shard_of(BUILTIN, shard, 4)) for shard in range(1, 5)]
    assert min(sizes) > len(BUILTIN) / 8
    part = [one.id for one in shard_of(BUILTIN, 2, 4)]
    assert part == sorted(part)


def test_shard_of_a_scenario_follows_from_its_id_alone() -> None:
    """Fixed values: they must not change with a version of Python or of ours."""
    ids = ["waves/stale-first-request", "utility/failing-beside-hanging", "a"]
    assert [[in_shard(name, n, 3) for n in (1, 2, 3)].index(True) for name in ids] == [1, 0, 1]


@pytest.mark.parametrize(
    ("story", "cost"),
    [
        (FENCE, START_S),
        ("topology: {config: {ready_timeout_s: 1.5}}\n" + FENCE, START_S + 2),
        ("steps:\n  - shutdown: {timeout_s: 2}\n", START_S + 2),
        ("steps:\n  - engine: {engine: 0, do: {stall: g}}\n  - open: g\n", START_S + 1.6),
        ("steps:\n  - crowd: {id: c, callers: 1000}\n", START_S + 4),
    ],
)
def test_estimate_counts_what_is_waited_for(story: str, cost: float) -> None:
    assert estimated_s(load(story).scenario) == pytest.approx(cost)


def test_race_is_the_longest_and_never_quick() -> None:
    race = load("trials: {miss: 0.5, max: 10}\n" + FENCE, "a-race")
    assert estimated_s(race.scenario) >= 10
    assert quick([race, load(FENCE, "b")]) == [load(FENCE, "b")]


def test_quick_part_is_bounded_and_in_the_order_given() -> None:
    chosen = quick(BUILTIN)
    costs = [estimated_s(one.scenario) for one in chosen]
    assert max(costs) <= QUICK_CELL_S
    assert sum(costs) <= QUICK_TOTAL_S
    assert chosen == [one for one in BUILTIN if one in chosen]
    assert {one.id.split("/")[0] for one in chosen} >= {"requests", "routing", "utility", "waves"}
    assert all(one.scenario.trials is None for one in chosen)


def test_quick_part_of_too_much_drops_the_costly_then_the_last_ids() -> None:
    many = [load(FENCE, f"s-{number:04}") for number in range(1000)]
    chosen = quick([load("steps:\n  - shutdown: {timeout_s: 1}\n", "slow"), *many])
    assert len(chosen) == int(QUICK_TOTAL_S / START_S)
    assert [one.id for one in chosen] == sorted(one.id for one in chosen)
    # Not the first ids: what is left is spread over all of them.
    assert sum(one.id < "s-0500" for one in chosen) in range(120, 220)
