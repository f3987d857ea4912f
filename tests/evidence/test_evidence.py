"""Invariants against evidence that lies: those that must break, break."""

from __future__ import annotations

import pytest

from harness.invariants import discover
from harness.mutants import find_mutant
from harness.scenario.loader import builtin_dir, load
from harness.trace.events import Record, RunEnded
from mock_engines.events import EngineResumed, EngineStalled
from tests.evidence.hiding import Hiding, broken_run, without
from tests.evidence.mutate import CHANGED, OPERATIONS, Lie, changes, lies, mutated, spread
from tests.evidence.rules import Rule, recorded, rules
from tests.evidence.table import HELD, VIOLATED

RULES = list(rules())
RUNS = sorted({(rule.scenario, rule.release) for rule in RULES}, key=str)
each_run = pytest.mark.parametrize(("scenario", "release"), RUNS, ids=[name for name, _ in RUNS])


def test_each_invariant_has_a_lie_that_must_break_it():
    assert {rule.invariant for rule in RULES} == {cls.id for cls in discover()}


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_lie_that_must_break_an_invariant_breaks_it(rule: Rule):
    run = rule.run()
    true = run.verdicts[rule.invariant].verdict
    assert (true == VIOLATED) is rule.cures, f"on the true evidence: {run.verdicts[rule.invariant]}"
    told = rule.lies()
    assert told, f"no such event in {run.name}"
    unseen = [
        lie
        for lie in told
        if (run.judged(mutated(run.records, lie))[rule.invariant].verdict == VIOLATED) is rule.cures
    ]
    assert not unseen, (
        f"{len(unseen)} of {len(told)} were not seen, e.g. #{unseen[0].place}: {unseen[0]}"
    )


@each_run
def test_the_true_evidence_judged_again_brings_the_same_verdicts(scenario, release):
    run = recorded(scenario, release)
    assert run is not None
    assert run.judged(run.records) == run.verdicts
    assert any(verdict.verdict == HELD for verdict in run.verdicts.values())


@each_run
def test_no_checker_raises_over_events_that_are_gone_or_too_many(scenario, release):
    run = recorded(scenario, release)
    assert run is not None
    for lie in lies(run.records, spread(len(run.records), 12)):
        if lie.operation != CHANGED:  # a changed one may have a shape that no trace has
            run.judged(mutated(run.records, lie))


# --- the lies themselves --------------------------------------------------------------------


def trace(*events) -> list[Record]:
    return [Record(seq, 10 * seq, event) for seq, event in enumerate(events)]


ONE, TWO = EngineResumed(1), EngineResumed(2)
SMALL = trace(ONE, TWO, RunEnded(()))


@pytest.mark.parametrize(
    ("lie", "events"),
    [
        (Lie("removed", 0, ONE), [TWO, RunEnded(())]),
        (Lie("doubled", 1, TWO), [ONE, TWO, TWO, RunEnded(())]),
        (Lie("swapped", 0, ONE, TWO), [TWO, ONE, RunEnded(())]),
        (Lie("changed", 0, ONE, TWO, "engine"), [TWO, TWO, RunEnded(())]),
    ],
)
def test_a_lie_changes_one_place_and_numbers_stay_in_order(lie, events):
    told = mutated(SMALL, lie)
    assert [record.event for record in told] == events
    assert [record.seq for record in told] == list(range(len(events)))
    assert [record.time_us for record in told] == sorted(record.time_us for record in told)
    assert [record.event for record in SMALL] == [ONE, TWO, RunEnded(())]


def test_every_place_gets_every_lie_but_a_swap_of_equals():
    found = [(lie.place, lie.operation) for lie in lies(trace(ONE, ONE, TWO))]
    assert set(found) == {(place, operation) for place in range(3) for operation in OPERATIONS} - {
        (0, "swapped"),
        (2, "swapped"),
    }


def test_changes_are_of_one_field_and_of_its_type():
    event = EngineStalled(1, "g")
    assert list(changes(event)) == [
        ("engine", EngineStalled(2, "g")),
        ("engine", EngineStalled(0, "g")),
        ("gate", EngineStalled(1, "g?")),
    ]


def test_places_are_spread_over_the_whole_trace():
    assert spread(3, 5) == [0, 1, 2]
    assert spread(101, 5) == [0, 25, 50, 75, 100]


# --- runs that mutants broke ------------------------------------------------------------------

BROKEN = (
    ("coordinator-rewinds", "waves/stale-first-request"),
    ("fail-fast-fan-out", "utility/failing-beside-hanging"),
    ("abort-to-every-engine", "requests/aborted-then-left"),
)


@pytest.mark.parametrize(("mutant", "scenario"), BROKEN)
def test_no_checker_raises_over_lies_about_a_broken_run_and_they_do_not_hide_all_of_it(
    mutant, scenario
):
    root = builtin_dir()
    run = broken_run(find_mutant(mutant), [load(root / f"{scenario}.yaml", root=root)])
    assert run is not None
    table = Hiding()
    table.add(run, find_mutant(mutant).killed_by, 25)
    assert table.raised == {}
    assert table.vanished.total() < table.told.total()
    assert table.clean.total() <= table.vanished.total()
    assert all(f"| {kind} |" in "\n".join(table.markdown()) for kind in table.told)


def test_a_checker_that_raises_over_a_lie_about_a_broken_run_is_told(monkeypatch):
    root = builtin_dir()
    mutant, scenario = BROKEN[0]
    run = broken_run(find_mutant(mutant), [load(root / f"{scenario}.yaml", root=root)])
    assert run is not None
    _ = run.verdicts

    def raises(_self, _record):
        raise KeyError

    monkeypatch.setattr(type(run), "judged", raises)
    table = Hiding()
    table.add(run, find_mutant(mutant).killed_by, 3)
    assert [name.partition(" ")[0] for name in table.raised] == ["KeyError"]


def test_evidence_without_some_events_keeps_the_others_in_order():
    told = without(trace(ONE, TWO, ONE, RunEnded(())), [0, 2])
    assert [record.event for record in told] == [TWO, RunEnded(())]
    assert [record.seq for record in told] == [0, 1]
