"""What a cell is called, and what the table's exit code is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.matrix.classify import cell_of, cell_word, table_exit
from harness.repeats import merge_repeats
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from tests.harness.matrix.conftest import BROKEN, RESULT, ROW, cell

NAME = ("wave.never-rewinds",)
OTHER = VerdictResult("request.add-once", "must", "violated", message="twice")
NOTHING = replace(RESULT, status="not_judged", reason="target lacks op.rank", trials=0)


@pytest.mark.parametrize(
    ("result", "word"),
    [
        (RESULT, "held"),
        (BROKEN, "regression"),
        (replace(BROKEN, known=NAME), "known"),
        (replace(RESULT, known=NAME), "blind"),
        (replace(BROKEN, known=(*NAME, "expectation")), "blind"),
        (replace(BROKEN, known=NAME, verdicts=(*BROKEN.verdicts, OTHER)), "regression"),
        (NOTHING, "not_judged"),
        (replace(RESULT, status="error", error="no binary", known=NAME), "error"),
        (replace(RESULT, status="unstable", reason="repeats differ"), "unstable"),
    ],
)
def test_cell_is_called_by_what_was_seen_and_what_was_predicted(
    result: ScenarioResult, word: str
) -> None:
    assert cell_word(result) == word
    assert cell_of(result, ROW, "0.24.0").status == word


def test_prediction_for_a_run_that_exercised_nothing_is_blind_not_excused() -> None:
    """Only what is played has a prediction; so a detector that went silent cannot hide."""
    silent = replace(NOTHING, reason="nothing that it expects was exercised", known=NAME, trials=1)
    found = cell_of(silent, ROW, "0.24.0")
    assert (found.status, found.blind) == ("blind", NAME)
    assert found.reason == (
        "known to violate wave.never-rewinds, and this was not seen; nothing was exercised"
    )


def test_violated_should_that_is_predicted_is_known_and_one_that_is_not_is_told() -> None:
    should = VerdictResult("s.x", "should", "violated")
    result = replace(RESULT, verdicts=(*RESULT.verdicts, should))
    assert cell_of(result, ROW, "0.24.0").should == ("s.x",)
    assert cell_word(result) == "held"
    assert cell_word(replace(result, known=("s.x",))) == "known"


def test_cell_carries_the_unpredicted_violation_first() -> None:
    result = replace(BROKEN, known=NAME, verdicts=(*BROKEN.verdicts, OTHER))
    found = cell_of(result, ROW, "0.24.0")
    assert (found.regression, found.known) == (("request.add-once",), NAME)
    assert found.message == "twice"


def test_cell_of_a_failed_expectation_shows_both_sides() -> None:
    step = ExpectationResult(3, "violated", "a: finished", "a: pending")
    found = cell_of(replace(RESULT, status="violated", expectations=(step,)), ROW, "0.24.0")
    assert (found.regression, found.expected, found.seen) == (
        ("expectation",), "a: finished", "a: pending",
    )  # fmt: skip
    assert found.message == "step 3 of the scenario did not see what it expects"


def test_cell_keeps_what_it_is_about_and_what_held() -> None:
    extra = VerdictResult("request.add-once", "must", "held", exercised=1)
    found = cell_of(replace(RESULT, verdicts=(*RESULT.verdicts, extra)), ROW, "0.24.0")
    assert found.held == ("wave.never-rewinds", "expectation")


def test_not_judged_cell_says_why() -> None:
    assert cell_of(NOTHING, ROW, "0.24.0").reason == "target lacks op.rank"


@pytest.mark.parametrize(
    ("trials", "race", "result", "cut"),
    [
        (3, True, RESULT, True),
        (7, True, RESULT, False),
        (3, False, RESULT, False),
        (3, True, BROKEN, False),
    ],
)
def test_race_that_saw_nothing_in_fewer_trials_than_planned_was_cut(
    trials: int, race: bool, result: ScenarioResult, cut: bool
) -> None:
    row = replace(ROW, race=race, trials_planned=7)
    assert cell_of(replace(result, trials=trials), row, "0.24.0").cut is cut


def test_repeats_that_differ_are_unstable_even_where_both_are_violated() -> None:
    """Known in one play and blind in the other: the status alone would not show it."""
    both = replace(
        BROKEN,
        known=(*NAME, "expectation"),
        expectations=(ExpectationResult(3, "violated", "x", "y"),),
    )
    one = replace(BROKEN, known=(*NAME, "expectation"))
    found = cell_of(merge_repeats([both, one], cell_word), ROW, "0.24.0")
    assert (found.status, found.plays) == ("unstable", ("known", "blind"))
    assert found.reason == "repeats differ: 1 known, 1 blind"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["held"], 0),
        (["known", "not_judged"], 0),
        (["held", "regression", "error"], 1),
        (["blind", "held"], 1),
        (["unstable"], 1),
        (["held", "error"], 3),
        (["error", "not_judged"], 3),
        (["not_judged"], 4),
        ([], 4),
    ],
)
def test_exit_code_of_a_table(statuses: list[str], code: int) -> None:
    cells = [cell(f"0.{number}.0", status) for number, status in enumerate(statuses)]
    assert table_exit(cells, interrupted=False) == code
    assert table_exit(cells, interrupted=True) == 130
