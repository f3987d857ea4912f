"""Several plays as one result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.repeats import merge_repeats
from harness.results import ScenarioResult
from tests.harness.matrix.conftest import BROKEN, RESULT

ERROR = replace(RESULT, status="error", error="no answer", verdicts=(), expectations=())
NOTHING = replace(RESULT, status="not_judged", reason="not exercised")


@pytest.mark.parametrize(
    ("plays", "status", "repeats"),
    [
        ([RESULT, RESULT], "held", ("held", "held")),
        ([BROKEN, BROKEN], "violated", ("violated", "violated")),
        ([RESULT, BROKEN], "unstable", ("held", "violated")),
        ([BROKEN, RESULT, RESULT], "unstable", ("violated", "held", "held")),
        ([RESULT, NOTHING], "unstable", ("held", "not_judged")),
        ([NOTHING, NOTHING], "not_judged", ("not_judged", "not_judged")),
        ([RESULT, ERROR], "error", ("held", "error")),
        ([ERROR, ERROR], "error", ("error", "error")),
        ([BROKEN, ERROR], "violated", ("violated", "error")),
        ([RESULT, BROKEN, ERROR], "unstable", ("held", "violated", "error")),
    ],
)
def test_repeats_share_a_status_or_are_unstable(
    plays: list[ScenarioResult], status: str, repeats: tuple[str, ...]
) -> None:
    merged = merge_repeats(plays)
    assert (merged.status, merged.repeats) == (status, repeats)


def test_unstable_result_says_how_often_what_was_seen_and_keeps_the_failure() -> None:
    merged = merge_repeats([RESULT, BROKEN, RESULT])
    assert merged.reason == "repeats differ: 2 held, 1 violated"
    assert merged.failure_file == "f.json"
    assert [v.verdict for v in merged.verdicts] == ["violated"]
    assert merged.error is None


def test_trials_and_durations_add_up() -> None:
    merged = merge_repeats([replace(RESULT, trials=3), replace(RESULT, trials=4)])
    assert (merged.trials, merged.duration_s) == (7, 0.5)


def test_one_play_is_itself() -> None:
    assert merge_repeats([RESULT]) == RESULT


def test_error_after_held_keeps_what_failed() -> None:
    assert merge_repeats([RESULT, ERROR]).error == "no answer"


def test_schedules_that_should_be_equal_and_are_not_are_unstable() -> None:
    plays = [replace(RESULT, digest="00"), replace(RESULT, digest="01")]
    merged = merge_repeats(plays)
    assert (merged.status, merged.digest) == ("unstable", None)
    assert "although the order is fixed" in str(merged.reason)
    assert merge_repeats([plays[0], plays[0]]).status == "held"
