"""When a run ends since its frontend never gets ready."""

from __future__ import annotations

import pytest

from harness.results import ScenarioResult
from harness.start_failures import StartFailures, start_failure
from harness.targets.base import StartFailed

ENDED = "the frontend ended with exit code {} before it was ready; it said:\nport {}"


def result(status="error", how=None, trials=1):
    return ScenarioResult(
        scenario="s",
        title="t",
        refs=(),
        profile="0.33.0",
        mutant=None,
        status=status,
        error="e" if status == "error" else None,
        start_failure=how,
        trials=trials,
    )


def taken(*results, connect_fails=False):
    starts = StartFailures()
    return [starts.take(one, connect_fails=connect_fails) for one in results]


def test_starts_are_alike_that_end_in_the_same_way_whatever_their_ports():
    one, other = (start_failure(StartFailed(ENDED.format(1, port))) for port in (12_000, 13_000))
    assert one == other
    assert start_failure(StartFailed(ENDED.format(2, 1))) != one
    slow, slower = (
        start_failure(StartFailed(f"the frontend neither served nor ended within {s} s; it said"))
        for s in (40, 12.5)
    )
    assert slow == slower


def test_three_starts_that_fail_alike_end_the_run():
    assert taken(result(how="a"), result(how="a"), result(how="a")) == [False, False, True]


@pytest.mark.parametrize(
    "between",
    [
        result(how="b"),
        result("held"),
        result("violated"),
        result("unstable"),
        result("error"),
    ],
)
def test_starts_that_differ_and_a_frontend_that_was_ready_once_do_not(between):
    assert taken(result(how="a"), result(how="a"), between, result(how="a")) == [False] * 4


def test_one_that_was_ready_may_fail_later_as_often_as_it_likes():
    assert not any(taken(result("held"), *[result(how="a")] * 9))


def test_what_is_not_judged_or_is_about_a_failed_start_shows_no_readiness():
    starts = StartFailures()
    for one, about in (
        (result(how="a"), False),
        (result("not_judged", trials=0), False),
        (result("held"), True),
        (result(how="a"), False),
    ):
        assert not starts.take(one, connect_fails=about)
    assert starts.take(result(how="a"), connect_fails=False)
    assert starts.title == "the frontend never got ready in 3 starts, which failed alike"
