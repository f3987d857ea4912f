"""What a baseline takes from a result: what is broken and counts, by the flags of its run."""

from __future__ import annotations

import pytest

from harness.baseline.observed import observed
from harness.results import ExpectationResult, ScenarioResult, VerdictResult

MUST = VerdictResult("wave.never-rewinds", "must", "violated")
OTHER = VerdictResult("utility.result-order", "must", "violated")
SHOULD = VerdictResult("utility.late-replies-dropped", "should", "violated")


def result(*verdicts, status="violated", **changes) -> ScenarioResult:
    step = ExpectationResult(1, "held", "x", "x")
    return ScenarioResult(
        "waves/x", "t", ("vllm#1",), "0.24.0", None, status,
        verdicts=verdicts, **{"expectations": (step,), **changes},
    )  # fmt: skip


def broken(found, *, allow_known=False, strict=False):
    return observed(found, "vllm-rs", allow_known=allow_known, strict=strict).broken


def test_every_violated_must_and_a_failed_expectation_are_broken():
    step = ExpectationResult(1, "violated", "x", "y")
    found = result(MUST, OTHER, expectations=(step,))
    assert broken(found) == ("wave.never-rewinds", "utility.result-order", "expectation")


@pytest.mark.parametrize("allow_known", [False, True])
def test_known_violation_is_broken_unless_known_ones_are_allowed(allow_known):
    found = result(MUST, OTHER, known=("wave.never-rewinds",))
    others = ("utility.result-order",)
    wanted = others if allow_known else (*others, "wave.never-rewinds")
    assert broken(found, allow_known=allow_known) == wanted


@pytest.mark.parametrize("known", [(), ("utility.late-replies-dropped",)])
def test_violated_should_counts_only_if_strict_whether_it_is_known_or_not(known):
    found = result(SHOULD, status="held", known=known)
    assert broken(found) == ()
    assert broken(result(MUST, SHOULD, known=known)) == ("wave.never-rewinds",)
    if not known:
        assert broken(found, strict=True) == ("utility.late-replies-dropped",)


def test_known_fault_that_was_not_seen_is_blind_only_where_known_ones_are_allowed():
    found = result(status="held", known=("wave.never-rewinds",))
    assert observed(found, "vllm-rs", allow_known=True, strict=False).blind == (
        "wave.never-rewinds",
    )
    assert observed(found, "vllm-rs", allow_known=False, strict=False).blind == ()


def test_result_that_was_not_judged_says_why():
    found = result(status="not_judged", reason="the target lacks op.rank", expectations=())
    told = observed(found, "sim", allow_known=True, strict=False)
    assert (told.judged, told.reason) == (False, "the target lacks op.rank")
