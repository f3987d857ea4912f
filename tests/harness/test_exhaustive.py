"""Scenarios of the collection that `dfs` explores to the end: every order of their events holds."""

from __future__ import annotations

import pytest

from harness.runner import RunOptions, run_scenario
from harness.scenario import selection

ALL_ORDERS = {
    "handshake/unknown-key-is-ignored": 360,
    "hostile/final-output-with-an-impossible-token": 112,
    "hostile/last-word-with-something-behind-it": 28,
    "hostile/message-that-says-nothing": 28,
    "hostile/negative-stats": 28,
    "hostile/two-notices-in-one-message": 28,
    "hostile/wave-beyond-32-bits": 328,
    "lifecycle/control-message-on-the-output-path": 28,
    "requests/reader-slower-than-its-engine": 852,
    "requests/send-fails": 720,
    "waves/external-malformed-garbage": 360,
    "waves/wave-complete-advances-once": 340,
}
"""Scenario → how many schedules there are, those left out that only swap what does not meet."""
MOST = 5_000
"""Schedules after which a scenario would count as one that does not end."""


def test_there_are_at_least_ten_of_them_in_several_chapters() -> None:
    assert len(ALL_ORDERS) >= 10
    assert len({name.split("/")[0] for name in ALL_ORDERS}) >= 5


@pytest.mark.parametrize("name", ALL_ORDERS)
def test_every_order_of_a_small_scenario_is_played_and_holds(name: str) -> None:
    (loaded,) = selection.load_all(selection.select([name]))
    result = run_scenario(loaded, RunOptions(strategy="dfs", schedules=MOST))
    assert (result.status, result.exhausted) == ("held", True)
    # A search that came to its end too early would be finished too.
    assert result.schedules == ALL_ORDERS[name]
    assert result.explored.startswith(f"all {ALL_ORDERS[name]:,} schedules of this scenario hold")


def test_search_that_is_cut_off_says_that_these_were_not_all() -> None:
    (loaded,) = selection.load_all(selection.select(["handshake/unknown-key-is-ignored"]))
    result = run_scenario(loaded, RunOptions(strategy="dfs", schedules=359))
    assert (result.status, result.exhausted, result.schedules) == ("held", False, 359)
    assert "not all" in result.explored
