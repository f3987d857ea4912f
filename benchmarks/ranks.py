"""What a step costs with more and more ranks that step together: ``python -m benchmarks --ranks``."""

from __future__ import annotations

import gc
import statistics
import time
from pathlib import Path

from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import parse

RANKS = (2, 4, 8, 16, 32, 64)
STEPS = (64, 576)
"""Two lengths of one request; their difference leaves out startup and end."""
GROWTH = 1.5
"""A step of all ranks may become so many times dearer than in proportion to their number."""
STORY = """
title: one rank generates, its peers run dummy steps
promise: none
refs: [vllm#1]
profiles: "==0.33.0"
topology: {{engines: {ranks}, coordinator: in-process, waves: lockstep}}
steps:
  - call: {{id: a, rank: 0, max_tokens: {tokens}}}
  - finish: a
  - expect: {{op: a, outcome: finished, tokens: {tokens}}}
"""


def table(rounds: int) -> bool:
    """Measure and print; whether the cost of a step grows at most in proportion."""
    found: dict[int, list[float]] = {ranks: [] for ranks in RANKS}
    for _ in range(rounds):
        for ranks in RANKS:
            short, long = (_seconds(ranks, tokens) for tokens in STEPS)
            found[ranks].append((long - short) / (STEPS[1] - STEPS[0]))
    print("ranks   one step of all, us   of each rank, us   against 2 ranks")
    base = statistics.median(found[RANKS[0]]) / RANKS[0]
    worst = 0.0
    for ranks, costs in found.items():
        cost = statistics.median(costs)
        worst = max(worst, cost / ranks / base)
        print(
            f"{ranks:>5} {cost * 1e6:>21.0f} {cost / ranks * 1e6:>18.1f} {cost / ranks / base:>17.2f}"
        )
    good = worst <= GROWTH
    print(f"{'at most' if good else 'MORE THAN'} linear: the dearest {worst:.2f} of {GROWTH}")
    return good


def _seconds(ranks: int, tokens: int) -> float:
    """CPU seconds of one run.

    Raises:
        RuntimeError: it did not hold: something else would be measured.
    """
    loaded = parse(STORY.format(ranks=ranks, tokens=tokens), Path("ranks.yaml"), name="ranks")
    gc.collect()
    begin = time.process_time()
    result = run_scenario(loaded, RunOptions())
    seconds = time.process_time() - begin
    if result.status != "held":
        msg = f"{ranks} ranks, {tokens} tokens: {result.status}"
        raise RuntimeError(msg)
    return seconds
