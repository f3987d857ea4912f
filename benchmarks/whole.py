"""The whole thing: real client, handshake, encoded messages, events, all invariants on."""

from __future__ import annotations

import itertools
from pathlib import Path

from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import builtin_dir, load

SMALL = "a request and a wave"
"""Two engines, an in-process coordinator, one request, one wave: what a search plays most."""
LARGE = "waves/stale-first-request"
"""The same fault forced by the script: two requests, three waves, six expectations."""
STRATEGIES = ("fifo", "random", "auto")
_LOADED = {
    SMALL: load(Path(__file__).with_name("stale_first_request.yaml")),
    LARGE: load(builtin_dir() / f"{LARGE}.yaml"),
}
LINES = tuple((scenario, strategy) for scenario in _LOADED for strategy in STRATEGIES)
_seeds = itertools.count()


def play(scenario: str, strategy: str, schedules: int) -> None:
    """Play schedules with the next seed, as ``wavecheck run`` does.

    Raises:
        RuntimeError: it does not hold, or ended early: something else would be measured.
    """
    seed = next(_seeds)
    options = RunOptions(schedules=schedules, strategy=strategy, seed=seed)
    result = run_scenario(_LOADED[scenario], options)
    if result.status != "held" or result.schedules != schedules:
        msg = f"{scenario} under {strategy}, seed {seed}: {result.status}, {result.schedules} runs"
        raise RuntimeError(msg)
