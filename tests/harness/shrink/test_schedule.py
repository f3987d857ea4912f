"""The fewest departures from FIFO order that break the same promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.replay import open_failure, replayed
from harness.runner import RunOptions, run_scenario
from harness.shrink import schedule
from harness.shrink.budget import Budget
from harness.shrink.promise import Promise
from harness.shrink.schedule import NAMED_LAST, reduce_schedule
from harness.shrink.stage import Stage
from tests.support.races import RACE, RACE_MUTANT, RACE_PROMISE
from tests.support.stories import load


def staged(path):
    """Where a failure is played, what it breaks, and the failing run."""
    opened = open_failure(path)
    attempt = replayed(opened).attempt
    return Stage(opened.spec, opened.target), Promise(opened.failure.violated), attempt


def test_race_under_random_choices_comes_down_to_one_departure(race):
    stage, promise, attempt = staged(race)
    assert promise.name == RACE_PROMISE
    before = stage.departures(attempt, None)
    order = reduce_schedule(stage, promise, attempt)
    assert len(before) > 5
    assert len(order.departures) == len(order.stalls) == len(order.lines) == 1
    assert order.departures[0].before == "coordinator-commands"
    assert promise.broken_in(order.attempt) is not None
    assert stage.stalled(order.stalls).attempt.digest == order.attempt.digest


def test_number_of_a_departure_is_that_of_its_choice_on_the_tape(race):
    stage, promise, attempt = staged(race)
    order = reduce_schedule(stage, promise, attempt)
    (departure,) = order.departures
    tape = stage.labelled(order.attempt.tape)
    choice, _ = tape.choices[departure.choice]
    assert tape.labels[departure.choice][choice] == departure.ran
    assert departure.before in tape.labels[departure.choice][:choice]


def test_what_fails_in_fifo_order_has_no_departure(fail):
    story = "steps:\n  - call: {id: a, rank: 65536}\n  - finish: a\n"
    path = fail(story, mutant="rank-truncated", strategy="random", seed=4)
    stage, promise, attempt = staged(path)
    budget = Budget(100)
    order = reduce_schedule(stage, promise, attempt, budget)
    assert (order.stalls, order.departures, order.lines, budget.used) == ((), (), (), 1)


def test_stalls_that_are_not_needed_are_left_out(race):
    stage, promise, attempt = staged(race)
    (place,) = reduce_schedule(stage, promise, attempt).stalls
    both = (place, place + 2)
    found = replace(stage.stalled(both).attempt, stalls=both)
    assert promise.broken_in(found) is not None
    budget = Budget(100)
    assert reduce_schedule(stage, promise, found, budget).stalls == (place,)
    assert budget.used <= 3


def test_tape_that_no_stalls_replace_keeps_few_of_its_choices(race, monkeypatch):
    stage, promise, attempt = staged(race)
    monkeypatch.setattr(schedule._Reduction, "_looked_for", lambda _self: None)
    order = reduce_schedule(stage, promise, attempt)
    assert order.stalls is None
    assert promise.broken_in(order.attempt) is not None
    assert 1 <= len(order.departures) < len(stage.departures(attempt, None)) / 2


def test_without_a_budget_the_schedule_stays_as_it_was(race):
    stage, promise, attempt = staged(race)
    order = reduce_schedule(stage, promise, attempt, Budget(0))
    assert (order.attempt, order.stalls) == (attempt, None)


@pytest.mark.parametrize("shrink", [True, False])
def test_run_tells_of_the_reduced_schedule_where_that_is_asked_for(tmp_path, shrink):
    options = RunOptions(
        out=tmp_path, mutant=RACE_MUTANT, schedules=60, strategy="random", seed=3, shrink=shrink
    )
    result = run_scenario(load(RACE), options)
    opened = open_failure(next(tmp_path.glob("*.json")))
    outcome = replayed(opened)
    assert (outcome.kind.value, outcome.digest_matches) == ("reproduced", True)
    assert outcome.witness_lines == result.witness_lines[: len(outcome.witness_lines)]
    if not shrink:
        assert (result.departures, opened.failure.departures, opened.failure.stalls) == (None,) * 3
        return
    assert result.departures == tuple(opened.failure.departures)
    assert len(result.departures) == len(opened.failure.stalls) == 1
    told = next(v for v in result.verdicts if v.invariant == RACE_PROMISE)
    assert told.witness == tuple(opened.failure.witness)


def test_violation_that_the_reduced_schedule_lacks_stays_without_witness(tmp_path):
    def run(**more):
        options = RunOptions(mutant=RACE_MUTANT, strategy="random", seed=3, schedules=60, **more)
        return run_scenario(load(RACE), options)

    def violated(result):
        return {v.invariant for v in result.verdicts if v.verdict == "violated"}

    found, reduced = run(out=tmp_path / "a"), run(out=tmp_path / "b", shrink=True)
    assert violated(found) <= violated(reduced)
    assert (found.status, found.schedules) == (reduced.status, reduced.schedules)
    assert found.digest == reduced.digest


def test_order_says_that_a_scenario_names_its_tasks(tmp_path):
    story = 'explore: ["coordinator-*", "op *"]\n' + RACE
    options = RunOptions(
        out=tmp_path, mutant=RACE_MUTANT, schedules=60, strategy="stall", shrink=True
    )
    result = run_scenario(load(story), options)
    assert result.departures == (NAMED_LAST,)


def test_interruption_while_reducing_leaves_the_failure_as_it_was_found(tmp_path, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.runner.reduce_schedule", interrupted)
    options = RunOptions(
        out=tmp_path, mutant=RACE_MUTANT, schedules=60, strategy="random", seed=3, shrink=True
    )
    with pytest.raises(KeyboardInterrupt):
        run_scenario(load(RACE), options)
    assert replayed(open_failure(next(tmp_path.glob("*.json")))).digest_matches is True
