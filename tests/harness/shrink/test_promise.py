"""Which violation it is about."""

from __future__ import annotations

import pytest

from harness.attempt import Attempt
from harness.shrink.promise import Promise
from tests.support.stories import perform

STORY = """
steps:
  - call: {id: a, rank: 65536}
  - finish: a
  - expect: {op: a, outcome: finished}
  - expect: {op: a, outcome: failed, error: InvalidDataParallelRank}
"""


@pytest.fixture(scope="module")
def attempt():
    """Its rank is truncated, so that it is served."""
    return Attempt(perform(STORY, mutant="rank-truncated"), None, "")


def test_invariant_that_is_violated_is_broken_with_its_own_words(attempt):
    verdict = next(v for v in attempt.verdicts if v.invariant == "routing.explicit-rank")
    broken = Promise("routing.explicit-rank").broken_in(attempt)
    assert (broken.message, broken.expected, broken.seen, broken.witness) == (
        verdict.message, verdict.expected, verdict.seen, verdict.witness,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["routing.score-matches", "wave.never-rewinds", "expectation at step 2", "no.such"]
)
def test_what_is_not_violated_is_not_broken_whatever_else_is(attempt, name):
    assert attempt.violated
    assert Promise(name).broken_in(attempt) is None


def test_failed_expectation_is_broken_at_its_step_alone(attempt):
    broken = Promise("expectation at step 3").broken_in(attempt)
    assert "InvalidDataParallelRank" in broken.expected


def test_step_is_that_of_an_expectation_and_moves():
    promise = Promise("expectation at step 12")
    assert (promise.step, promise.at(3)) == (12, Promise("expectation at step 3"))
    assert Promise("wave.never-rewinds").step is None
