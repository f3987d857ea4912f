"""Statuses, merging, known faults and exit codes, as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.scenario.model import Known
from harness.verdict import (
    Assessment,
    ExitCode,
    Summary,
    assess,
    exit_code,
    is_known,
    merge_all,
    merge_expectations,
    merge_verdicts,
    most_telling,
    predicted,
    status_of,
    summarise,
)


def verdict(name: str, value: str, *, level: str = "must", exercised: int = 1) -> VerdictResult:
    return VerdictResult(name, level, value, exercised=exercised)


def expectation(status: str, step: int = 0) -> ExpectationResult:
    return ExpectationResult(step, status, "e", "s")


def result(
    status: str,
    *broken: str,
    known: tuple[str, ...] = (),
    should: tuple[str, ...] = (),
    expectations: tuple[ExpectationResult, ...] = (),
) -> ScenarioResult:
    """A result in which the invariants ``broken`` are violated."""
    verdicts = [verdict(name, "violated") for name in broken]
    verdicts += [verdict(name, "violated", level="should") for name in should]
    return ScenarioResult(
        scenario="x",
        title="t",
        refs=(),
        profile="0.24.0",
        mutant=None,
        status=status,
        known=known,
        verdicts=tuple(verdicts),
        expectations=expectations,
    )


HELD = result("held")
VIOLATED = result("violated", "a")
NOT_JUDGED = result("not_judged")
ERROR = result("error")
KNOWN = result("violated", "a", known=("a",))
BLIND = result("held", known=("a",))
SHOULD = result("held", should=("s",))
UNSTABLE = result("unstable", "a", known=("a",))


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("held", "held", "held"),
        ("held", "not_judged", "held"),
        ("not_judged", "held", "held"),
        ("violated", "held", "violated"),
        ("not_judged", "violated", "violated"),
        ("not_judged", "not_judged", "not_judged"),
    ],
)
def test_merge_takes_the_worst_and_adds_occurrences(first: str, second: str, merged: str) -> None:
    found = merge_verdicts(verdict("a", first, exercised=2), verdict("a", second, exercised=3))
    assert (found.verdict, found.exercised) == (merged, 5)


def test_merge_of_two_violations_keeps_the_first_witness() -> None:
    first = VerdictResult("a", "must", "violated", message="first", witness=(1,))
    second = VerdictResult("a", "must", "violated", message="second", witness=(2,))
    assert merge_verdicts(first, second).witness == (1,)


def test_merge_of_runs_is_sorted_and_keeps_what_only_one_run_has() -> None:
    runs = [[verdict("b", "held")], [verdict("a", "held"), verdict("b", "violated")]]
    assert [(v.invariant, v.verdict, v.exercised) for v in merge_all(runs)] == [
        ("a", "held", 1),
        ("b", "violated", 2),
    ]


def test_merge_of_expectations_takes_the_worst_of_each_step() -> None:
    runs = [
        [expectation("held", 1), expectation("held", 4)],
        [expectation("violated", 4), expectation("not_judged", 1)],
    ]
    assert [(e.step, e.status) for e in merge_expectations(runs)] == [(1, "held"), (4, "violated")]


@pytest.mark.parametrize(
    ("error", "expectations", "verdicts", "own", "status"),
    [
        ("boom", [expectation("violated")], [], (), "error"),
        (None, [expectation("violated"), expectation("held")], [], (), "violated"),
        (None, [expectation("held")], [verdict("a", "violated")], (), "violated"),
        (None, [expectation("held")], [verdict("a", "violated", level="should")], (), "held"),
        (None, [expectation("held"), expectation("not_judged")], [], (), "held"),
        (None, [expectation("not_judged")], [verdict("a", "held")], (), "not_judged"),
        (None, [], [verdict("a", "held")], ("a",), "held"),
        (None, [], [verdict("a", "held")], ("b",), "not_judged"),
        (None, [], [], (), "not_judged"),
    ],
)
def test_status_of_a_scenario(
    error: str | None,
    expectations: list[ExpectationResult],
    verdicts: list[VerdictResult],
    own: tuple[str, ...],
    status: str,
) -> None:
    assert status_of(error, expectations, verdicts, own_invariants=own) == status


@pytest.mark.parametrize(
    ("introduced_in", "fixed_in", "release", "affected"),
    [
        (None, None, "0.22.0", True),
        (None, "0.25.0", "0.24.0", True),
        (None, "0.25.0", "0.25.0", False),
        ("0.24.0", None, "0.23.0", False),
        ("0.24.0", None, "0.24.0", True),
        ("0.24.0", "0.26.0", "0.25.1", True),
        ("0.24.0", "0.26.0", "0.26.0", False),
    ],
)
def test_known_predicts_from_its_introduction_up_to_its_fix(
    introduced_in: str | None, fixed_in: str | None, release: str, affected: bool
) -> None:
    entry = Known(
        invariant="a", introduced_in=introduced_in, fixed_in=fixed_in, reason="r", link="vllm#1"
    )
    assert predicted([entry, entry], Version(release)) == (("a",) if affected else ())


def test_assessment_sorts_violations_by_prediction() -> None:
    found = assess(
        result(
            "violated",
            "a",
            "b",
            known=("a", "expectation", "gone"),
            should=("s",),
            expectations=(expectation("violated"),),
        )
    )
    assert found == Assessment(
        known=("a", "expectation"), unknown=("b",), blind=("gone",), should=("s",)
    )


@pytest.mark.parametrize("status", ["not_judged", "error"])
def test_what_was_not_judged_is_not_blind(status: str) -> None:
    assert assess(result(status, known=("a",))).blind == ()


def test_run_that_broke_off_after_a_violation_is_blind_to_nothing() -> None:
    found = result("violated", "a", known=("a", "b"))
    assert assess(found).blind == ("b",)
    assert assess(replace(found, error="the target failed")).blind == ()


def test_result_is_known_only_if_every_violation_is_predicted() -> None:
    assert is_known(KNOWN)
    assert not is_known(VIOLATED)
    assert not is_known(result("violated", "a", "b", known=("a",)))
    assert not is_known(BLIND)


@pytest.mark.parametrize(
    ("results", "allow_known", "strict", "code"),
    [
        # plain
        ([HELD], False, False, 0),
        ([HELD, NOT_JUDGED], False, False, 0),
        ([HELD, VIOLATED], False, False, 1),
        ([VIOLATED], False, False, 1),
        ([], False, False, 2),
        ([HELD, ERROR], False, False, 3),
        ([ERROR], False, False, 3),
        ([ERROR, NOT_JUDGED], False, False, 3),
        ([VIOLATED, ERROR], False, False, 1),
        ([NOT_JUDGED], False, False, 4),
        ([SHOULD], False, False, 0),
        ([KNOWN, HELD], False, False, 1),
        ([UNSTABLE, HELD, ERROR], False, False, 1),
        ([UNSTABLE], True, False, 1),
        ([BLIND], False, False, 0),
        # --allow-known
        ([KNOWN], True, False, 0),
        ([KNOWN, HELD, NOT_JUDGED], True, False, 0),
        ([BLIND, HELD], True, False, 1),
        ([VIOLATED, KNOWN], True, False, 1),
        ([result("violated", "a", "b", known=("a",))], True, False, 1),
        ([result("violated", "b", known=("a", "b"))], True, False, 1),
        ([result("not_judged", known=("a",)), HELD], True, False, 0),
        ([KNOWN, ERROR], True, False, 3),
        # --strict
        ([HELD], False, True, 0),
        ([HELD, NOT_JUDGED], False, True, 1),
        ([SHOULD], False, True, 1),
        ([NOT_JUDGED], False, True, 4),
        ([HELD, NOT_JUDGED, ERROR], False, True, 3),
        # both
        ([KNOWN, NOT_JUDGED], True, True, 1),
        ([KNOWN, HELD], True, True, 0),
        ([result("held", known=("s",), should=("s",))], True, True, 0),
    ],
)
def test_exit_code(
    results: list[ScenarioResult], allow_known: bool, strict: bool, code: int
) -> None:
    assert exit_code(results, allow_known=allow_known, strict=strict) == code


@pytest.mark.parametrize("results", [[], [HELD], [VIOLATED, ERROR]])
def test_interruption_comes_before_everything(results: list[ScenarioResult]) -> None:
    assert exit_code(results, interrupted=True) == ExitCode.INTERRUPTED


def test_summary_counts_each_scenario_once_and_known_beside() -> None:
    assert summarise([HELD, VIOLATED, KNOWN, NOT_JUDGED, ERROR, HELD], ExitCode.VIOLATION) == (
        Summary(held=2, violated=2, known=1, not_judged=1, error=1, exit=1)
    )


def test_most_telling_violation_is_what_the_run_is_about() -> None:
    found = most_telling(
        [
            verdict("s", "violated", level="should"),
            verdict("a", "violated"),
            verdict("b", "violated"),
            verdict("c", "violated"),
            verdict("d", "held"),
        ],
        ["c", "b", "c", "s"],
    )
    assert [v.invariant for v in found] == ["c", "b", "a", "s"]
