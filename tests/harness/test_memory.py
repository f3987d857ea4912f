"""Memory of long campaigns: a run leaves nothing that grows with the number of runs."""

from __future__ import annotations

import gc
import sys

import pytest

from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from tests.support.stories import load

WARM_UP = 1_000
"""Enough for the caches to hold what most runs of this scenario have in common."""
RUNS = 2_000
GROWTH_MAX = RUNS // 4
"""Blocks of memory that may be there more afterwards; a run that leaves one object leaves RUNS."""
FOR_A_CAMPAIGN = 5
"""Objects in circles that a campaign may leave, however many schedules it has."""
SMALL = """topology: {engines: 1}
steps:
  - call: {id: a}
  - utility: {id: u, method: is_sleeping}
  - finish: [a, u]
  - expect: {op: a, outcome: finished}
"""


def play(schedules: int, seed: int) -> ScenarioResult:
    options = RunOptions(schedules=schedules, strategy="random", seed=seed)
    return run_scenario(load(SMALL), options)


def blocks() -> int:
    """Blocks that Python has allocated, without what only waits for a collection."""
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("engines", [1, 3])
def test_a_run_leaves_nothing_to_the_garbage_collector(engines: int):
    story = load(SMALL.replace("engines: 1", f"engines: {engines}, coordinator: in-process"))
    options = RunOptions(schedules=5, strategy="random")
    assert run_scenario(story, options).status == "held"  # imports, caches
    gc.collect()
    gc.disable()
    try:
        assert run_scenario(story, options).schedules == 5
        assert gc.collect() < FOR_A_CAMPAIGN
    finally:
        gc.enable()


@pytest.mark.slow
def test_memory_after_thousands_of_schedules_is_what_it_was_before():
    assert play(WARM_UP, 1).status == "held"
    before = blocks()
    assert play(RUNS, 2).schedules == RUNS
    assert blocks() - before < GROWTH_MAX
