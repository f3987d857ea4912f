"""Each mutant changes one part, has its own id, and names an invariant that exists."""

from __future__ import annotations

from dataclasses import fields

import pytest

from client.components import Components
from harness.invariants import discover as discover_invariants
from harness.mutants import UnknownMutantError, discover, find_mutant

MUTANTS = discover()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_mutant_replaces_exactly_one_component_by_a_subclass(mutant):
    base = Components()
    mutated = mutant.components(base)
    changed = [
        field.name
        for field in fields(Components)
        if getattr(base, field.name) is not getattr(mutated, field.name)
    ]
    assert len(changed) == 1
    assert issubclass(getattr(mutated, changed[0]), getattr(base, changed[0]))
    assert mutant.title
    assert mutant.bug
    assert mutant.source


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_mutant_names_an_invariant_that_exists(mutant):
    assert mutant.killed_by in {invariant.id for invariant in discover_invariants()}


def test_first_ten_mutants_are_there_sorted_by_id():
    ids = [mutant.id for mutant in MUTANTS]
    assert ids == sorted(ids)
    assert {
        "fail-fast-fan-out", "utility-waiter-leaked-on-cancel",
        "request-leaked-on-cancel-before-send", "stream-dropped-without-abort",
        "coordinator-rewinds", "stale-first-request-leaves-out-target",
        "first-request-leaves-running-false", "first-engine-only-is-sleeping",
        "rank-truncated", "abort-to-every-engine",
    } <= set(ids)  # fmt: skip


def test_unknown_mutant_is_refused_with_the_known_ones():
    assert find_mutant("rank-truncated").id == "rank-truncated"
    with pytest.raises(UnknownMutantError, match="unknown mutant 'nope'; known: abort-to-every"):
        find_mutant("nope")
