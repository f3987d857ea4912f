"""A failure file becomes a small scenario and a small schedule of the same violation."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from harness.replay import ReplayKind, open_failure, replay
from harness.scenario.loader import load as load_file
from harness.scenario.positions import parse_yaml
from harness.shrink import scenario
from harness.shrink.budget import Budget
from harness.shrink.reduction import (
    NotReproducedError,
    Weight,
    reduce_failure,
    write_reduced,
)
from harness.shrink.scenario import Casting, ScenarioReduction
from tests.support.races import RACE_PROMISE

REFUSED = """
topology: {engines: 3}
steps:
  - utility: {id: u, method: is_sleeping}
  - call: {id: other, rank: 1, max_tokens: 7}
  - call: {id: a, rank: 65536}
  - finish: [u, other, a]
  - expect: {op: a, outcome: failed, error: InvalidDataParallelRank}
"""
"""With the mutant the call is served; without it, it is refused as it should be."""


def reduced(path, runs=3000):
    return reduce_failure(open_failure(path), Budget(runs))


def test_race_comes_down_to_two_calls_and_one_departure(race, tmp_path):
    found = reduced(race)
    assert (found.before.steps, found.before.engines) == (6, 2)
    assert (found.after.steps, found.after.engines, found.after.departures) == (2, 1, 1)
    assert found.after.events < found.before.events
    assert (found.finished, found.interrupted) == (True, False)
    assert found.failure.violated == RACE_PROMISE
    scenario, failure = write_reduced(found, tmp_path / "small")
    text = scenario.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 24
    assert f"#   {found.order[0]}" in text.splitlines()
    assert load_file(scenario).scenario.invariants == [RACE_PROMISE]
    outcome = replay(failure)
    assert (outcome.kind, outcome.digest_matches) == (ReplayKind.REPRODUCED, True)
    assert outcome.failure.violated == RACE_PROMISE
    # What stands in a failure file of somebody else adds no line to the scenario.
    hostile = dataclasses.replace(found, order=("x\ny: 1", "\u2028z: 1\x1b[31m"))
    written = write_reduced(hostile, tmp_path / "hostile")[0].read_text(encoding="utf-8")
    assert parse_yaml(written)[0] == parse_yaml(text)[0]
    assert all(line.isprintable() for line in written.split("\n"))


def test_same_failure_is_reduced_alike_each_time(race):
    first, second = reduced(race), reduced(race)
    assert (first.text, first.failure, first.tried) == (second.text, second.failure, second.tried)


def test_reduced_failure_cannot_be_reduced_further(race, tmp_path):
    small = write_reduced(reduced(race), tmp_path / "one")[1]
    again = reduced(small)
    assert again.before == again.after
    assert again.failure.scenario_id == "stories/bad-reduced"


def test_expectation_keeps_what_makes_it_true_of_a_correct_client(fail):
    """Without its rank the call would be served by any client: that is another failure."""
    path = fail(REFUSED, mutant="rank-truncated")
    document = json.loads(path.read_text())
    document["violated"] = "expectation at step 4"
    path.write_text(json.dumps(document))
    found = reduced(path)
    assert found.failure.violated == "expectation at step 1"
    steps = open_failure(write_reduced(found, path.parent)[1]).loaded.scenario.steps
    assert [step.verb for step in steps] == ["call", "expect"]
    assert steps[0].call.rank == 65536
    assert steps[0].call.max_tokens <= 3
    assert found.after.engines == 2


def test_expectation_that_a_correct_client_breaks_keeps_what_it_saw(fail):
    story = """
steps:
  - utility: {id: u, method: is_sleeping}
  - call: {id: a, rank: 0, max_tokens: 5}
  - call: {id: b, rank: 0, max_tokens: 5}
  - finish: [a, b]
  - expect: {count: {event: add, equals: 3}}
"""
    found = reduced(fail(story))
    assert (found.expected, found.seen) == ("exactly 3 × add", "2 × add")
    assert found.failure.violated.startswith("expectation at step ")
    assert found.after.steps < 5


def test_interruption_keeps_the_smallest_so_far(race):
    budget = Budget(3000)
    kept = []

    def watch(case, _tried):
        kept.append(case)
        if len(kept) == 3:
            raise KeyboardInterrupt

    found = reduce_failure(open_failure(race), budget, watch)
    assert found.interrupted
    assert found.after.steps == len(kept[-1].scenario.steps)
    assert found.failure.violated == RACE_PROMISE


def test_without_a_budget_the_scenario_stays_and_is_not_said_to_be_finished(race):
    found = reduced(race, runs=0)
    assert found.before == found.after
    assert not found.finished


def test_what_does_not_fail_any_more_is_not_reduced(race):
    document = json.loads(race.read_text())
    document["mutant"] = None
    race.write_text(json.dumps(document))
    with pytest.raises(NotReproducedError, match=r"differs from the tape|no longer violated"):
        reduced(race)


def test_candidate_that_breaks_something_else_is_no_candidate(race, monkeypatch):
    """Whatever is kept on the way breaks the promise that the file names."""
    kept = []
    accept = ScenarioReduction._accept

    def watched(self, data):
        taken = accept(self, data)
        if taken:
            kept.append(self.case)
        return taken

    monkeypatch.setattr(ScenarioReduction, "_accept", watched)
    reduced(race)
    assert len(kept) > 3
    assert all(case.promise.broken_in(case.attempt) for case in kept)
    sizes = [case.size for case in kept]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)


def test_candidate_that_steps_for_ever_is_given_up(race, monkeypatch):
    """Ranks that never agree again do not end; the loop's own limit is a million steps for each."""
    monkeypatch.setattr(scenario, "STEPS_MIN", 1)
    monkeypatch.setattr(scenario, "STEPS_PER_CHOICE", 0)
    limits = set()
    stage = Casting.stage

    def noted(self, *args, **named):
        limits.add((named.get("mutant", True), named.get("steps_max")))
        return stage(self, *args, **named)

    found = reduced(race)
    assert found.tried > 1
    assert (found.after.steps, found.after.events) == (found.before.steps, found.before.events)
    monkeypatch.undo()
    monkeypatch.setattr(Casting, "stage", noted)
    reduced(race)
    least = scenario.STEPS_MIN
    # The schedule alone is reduced without one: it is the failing run, or shorter.
    assert limits == {(True, None), (True, least), (False, least)}


@pytest.mark.slow
def test_failure_on_real_sockets_is_reduced_without_a_schedule(fail, tmp_path):
    story = """
topology: {engines: 3}
steps:
  - call: {id: b, rank: 0}
  - call: {id: a, rank: 65536}
  - finish: [a, b]
"""
    found = reduced(fail(story, mutant="rank-truncated", target="zmq"))
    assert found.order is None
    assert found.after == Weight(steps=1, engines=2, departures=None, events=found.after.events)
    failure = write_reduced(found, tmp_path / "small")[1]
    assert replay(Path(failure)).kind is ReplayKind.REPRODUCED
