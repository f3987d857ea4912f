"""The whole thing: real client, handshake, encoded messages, events, all invariants on."""

from __future__ import annotations

import itertools

from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import builtin_dir, load

SCENARIO = "waves/stale-first-request"
"""Two engines, an in-process coordinator, two requests, three waves."""
STRATEGIES = ("fifo", "random", "auto")
_LOADED = load(builtin_dir() / f"{SCENARIO}.yaml")
_seeds = itertools.count()


def play(strategy: str, schedules: int) -> None:
    """Play schedules with the next seed, as ``wavecheck run`` does.

    Raises:
        RuntimeError: it does not hold, or ended early: something else would be measured.
    """
    seed = next(_seeds)
    options = RunOptions(schedules=schedules, strategy=strategy, seed=seed)
    result = run_scenario(_LOADED, options)
    if result.status != "held" or result.schedules != schedules:
        msg = f"{SCENARIO} under {strategy}, seed {seed}: {result.status}, {result.schedules} runs"
        raise RuntimeError(msg)
