"""Two sides that differ are told apart, and what leads there is made short; without vLLM."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.differential.breaks import BREAKS
from harness.differential.moves import Arrive, Run, make_case
from harness.differential.play import Play, shrunk

RELEASE = "0.33.0"
PAUSES = ("pause_scheduler", "pause_generation", "sleep")


def cases(count):
    return [make_case(1, n, short_interval=True, pauses=PAUSES) for n in range(count)]


def first_difference(sides, count=300):
    for case in cases(count):
        difference = Play(case, sides, Counter()).run(case.moves)
        if difference is not None:
            return case, difference
    return None


def test_sides_that_are_alike_never_differ(model_twice):
    seen = Counter()
    sides = model_twice(RELEASE, "nothing")
    for case in cases(100):
        assert Play(case, sides, seen).run(case.moves) is None
    assert seen["send complete"] > 50
    assert seen["call failed: in flight"] > 5
    assert seen["ends at rest"] > 25


@pytest.mark.parametrize("broken", sorted(BREAKS.keys() - {"nothing"}))
def test_rule_made_wrong_differs_within_three_hundred_sequences(model_twice, broken):
    assert first_difference(model_twice(RELEASE, broken)) is not None


def test_sequence_that_differs_is_made_short(model_twice):
    sides = model_twice(RELEASE, "resume-during-pause")
    case, _difference = first_difference(sides)
    smaller, difference = shrunk(case, sides)
    assert len(smaller.moves) < len(case.moves)
    methods = [move.args[2] for move in smaller.moves if isinstance(move, Arrive)]
    assert len(methods) == 2
    assert "in flight" in difference.oracle
    assert "in flight" not in difference.model
    assert any(isinstance(move, Run) for move in smaller.moves)


def test_same_seed_and_number_make_the_same_sequence():
    assert cases(5) == cases(5)
    assert make_case(1, 0, short_interval=True, pauses=PAUSES) != make_case(
        2, 0, short_interval=True, pauses=PAUSES
    )
