"""What the mutants of past faults of the engine loop say about the order of their fixes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from client.protocol.profiles import profile_for
from harness.mutants import find_mutant
from harness.mutants.lockstep.waiting_request_needs_no_dummy import FetchesCaches
from harness.play import play
from harness.runner import RunOptions, cached_target, make_spec, run_scenario
from harness.scenario import selection
from harness.scenario.loader import parse
from harness.strategies import make_search
from harness.strategies.base import Limits
from harness.tape import Recorder
from harness.verdict import HELD, VIOLATED
from harness.worlds import SimWorld
from mock_engines.parts import EngineParts

ALONE = "lockstep.no-rank-waits-alone"
LATE = "lockstep/a-request-that-comes-while-paused"
NEEDED = "lockstep/a-wake-up-that-a-peer-still-needs"
AT_ONCE = "lockstep/left-before-the-first-step"
STAGES = [
    # mutant, and whether it keeps the promise of each scenario
    ("pause-returns-early", {LATE: False}),
    ("paused-rank-follows-wake-ups", {LATE: False, NEEDED: True}),
    ("paused-rank-ignores-wake-ups", {LATE: True, NEEDED: False}),
    ("announcer-stays-asleep", {LATE: True, NEEDED: True, AT_ONCE: False}),
    (None, {LATE: True, NEEDED: True, AT_ONCE: True}),
]
"""The pause, from one fix to the next; the last is what 0.33 does. Where a stage keeps this promise
it may break another one, such as that a pause returns at rest."""


def loaded(name):
    (found,) = selection.load_all(selection.select([name]))
    return found


def broken(result):
    return {each.invariant for each in result.verdicts if each.verdict == VIOLATED}


@pytest.mark.parametrize(
    ("mutant", "scenario", "keeps"),
    [(mutant, name, keeps) for mutant, row in STAGES for name, keeps in row.items()],
)
def test_each_fix_of_the_pause_mends_what_the_one_before_left_open_and_the_last_all(
    mutant, scenario, keeps, tmp_path
):
    old = mutant is not None and find_mutant(mutant).needs == "frontend_starts_waves"
    release = "0.32.0" if old else "0.33.0"
    result = run_scenario(
        loaded(scenario), RunOptions(profile=release, mutant=mutant, out=tmp_path)
    )
    assert (ALONE not in broken(result)) == keeps
    assert result.error is None
    assert mutant is not None or result.status == HELD


@pytest.mark.parametrize(("release", "steps"), [("0.29.0", 32), ("0.30.0", 1), ("0.33.0", 1)])
def test_a_pause_of_idle_ranks_costs_as_many_steps_as_its_release_says(release, steps, tmp_path):
    found = loaded("lockstep/an-idle-pause-costs-one-step")
    text = found.text.replace(
        "waves: [[0, 0, 1], [1, 0, 1]]", f"waves: [[0, 0, {steps}], [1, 0, {steps}]]"
    )
    result = run_scenario(
        parse(text, found.path, name=found.id), RunOptions(profile=release, out=tmp_path)
    )
    assert result.status == HELD


def test_caches_that_are_fetched_are_no_fault_by_themselves():
    name = "lockstep/one-rank-has-work-for-many-steps"
    target = cached_target(RunOptions().request)
    spec = make_spec(loaded(name).scenario, target, profile_for("0.33.0"), None)
    spec = replace(spec, engine_parts=EngineParts(scheduler=FetchesCaches))
    search = make_search("pct", 0, Limits())
    for _ in range(20):
        strategy = search.next()
        assert strategy is not None
        played = play(spec, SimWorld(Recorder(strategy)))
        assert played.broke is None
        assert [v.invariant for v in played.verdicts if v.verdict == VIOLATED] == []
        assert {each.outcome.status for each in played.story.results} == {HELD}


@pytest.mark.parametrize("release", ["0.22.0", "0.32.0", "0.33.0"])
def test_a_second_resume_strands_the_ranks_of_each_release_and_none_once_mended(release, tmp_path):
    found = loaded("lockstep/resumed-twice")
    assert ALONE in broken(run_scenario(found, RunOptions(profile=release, out=tmp_path)))
    mended = found.text.replace(
        "waves: lockstep}", "waves: lockstep, lockstep: {mended: [resumed-twice]}}"
    )
    assert mended != found.text
    assert (
        run_scenario(
            parse(mended, found.path, name=found.id), RunOptions(profile=release, out=tmp_path)
        ).status
        == HELD
    )
