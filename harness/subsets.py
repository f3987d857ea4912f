"""Which part of a selection is played: a shard of it, or the quick part. Pure.

Both rules look at the scenario files alone, so they choose the same on every machine.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Scenario, Step
from mock_engines.specs import happens_to_processes

START_S = 0.12
"""Estimated seconds of a run on a real frontend: start, a few calls, stop (measured: 0.05 to
0.15)."""
CHILD_S = 1.6
"""More for engines in processes of their own (measured: 0.6 to 1.7)."""
TRIAL_S = 3.0
"""Of one trial of a race (measured: 2.7)."""
REQUEST_S = 0.004
"""Of one request, or one message of a flood."""
QUICK_CELL_S = 1.0
"""A quick scenario is estimated to take no longer than this."""
QUICK_TOTAL_S = 40.0
"""The estimates of all quick scenarios together, so that they end in a minute."""


def in_shard(scenario_id: str, shard: int, shards: int) -> bool:
    """Whether a scenario belongs to shard ``shard`` of ``shards``, counted from 1.

    It depends on the id alone: a new scenario moves no other one.
    """
    return int.from_bytes(_digest(scenario_id)[:8], "big") % shards == shard - 1


def _digest(scenario_id: str) -> bytes:
    return hashlib.sha256(scenario_id.encode()).digest()


def shard_of(loaded: Iterable[LoadedScenario], shard: int, shards: int) -> list[LoadedScenario]:
    """Scenarios of one shard, in the order given."""
    return [one for one in loaded if in_shard(one.id, shard, shards)]


def quick(loaded: Sequence[LoadedScenario]) -> list[LoadedScenario]:
    """The quick part, in the order given: no races, nothing that waits, cheapest first.

    Taken are those estimated to last at most ``QUICK_CELL_S``, cheapest first, as long as their
    estimates add up to at most ``QUICK_TOTAL_S``. Among equals the digest of the id decides, so
    that each chapter gives up its share.
    """
    chosen: set[str] = set()
    total = 0.0
    for cost, _, name in sorted((estimated_s(o.scenario), _digest(o.id), o.id) for o in loaded):
        total += cost
        if cost > QUICK_CELL_S or total > QUICK_TOTAL_S:
            break
        chosen.add(name)
    return [one for one in loaded if one.id in chosen]


def estimated_s(scenario: Scenario) -> float:
    """Roughly how many seconds one run on a real frontend takes, all trials included."""
    cost = START_S + sum(_step_s(step) for step in scenario.steps)
    config = scenario.topology.config
    # Whole seconds, as the options of a real frontend want them; it is waited for in vain.
    cost += math.ceil(config.ready_timeout_s or 0) + math.ceil(config.utility_timeout_s or 0)
    if _has_child(scenario):
        cost += CHILD_S
    if scenario.trials is not None:
        cost = max(cost, TRIAL_S) * scenario.trials.max
    return cost


def _step_s(step: Step) -> float:
    if step.shutdown is not None:
        return math.ceil(step.shutdown.timeout_s)
    if step.load is not None:
        return step.load.clients * step.load.requests * REQUEST_S
    if step.crowd is not None:
        return step.crowd.callers * REQUEST_S
    return 0.0


def _has_child(scenario: Scenario) -> bool:
    by_step = any(
        step.engine is not None and happens_to_processes(step.engine.do) for step in scenario.steps
    )
    by_rule = any(happens_to_processes(rule.do) for spec in scenario.engines for rule in spec.rules)
    return by_step or by_rule or any(spec.process for spec in scenario.engines)
