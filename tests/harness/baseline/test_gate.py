"""What a comparison with a baseline finds, and what counts."""

from __future__ import annotations

import datetime as dt

import pytest

from harness.baseline.gate import Comparison, Gate, Kind
from harness.verdict import ExitCode
from tests.harness.baseline.conftest import (
    PROMISE,
    RACE,
    baseline,
    held,
    pin,
    seen,
    unjudged,
    waiver,
)

TODAY = dt.date(2026, 12, 1)


def compare(base, *results, today=TODAY, exists=(), partial=False, strict=False) -> Comparison:
    return Gate(base, today).compare(
        results,
        target="vllm-rs",
        exists=lambda name: name in exists,
        partial=partial,
        strict=strict,
    )


def kinds(comparison: Comparison) -> list[tuple[str, bool]]:
    return [(str(one.kind), comparison.counts(one)) for one in comparison.found]


# --- violations -----------------------------------------------------------------------------


def test_violation_without_a_waiver_is_a_regression():
    found = compare(baseline(pins=[pin()]), seen())
    assert kinds(found) == [("regression", True)]
    assert found.exit_code(["violated"]) is ExitCode.VIOLATION
    assert found.words == "1 regression"


def test_waived_violation_does_not_count_and_names_owner_reason_and_days():
    found = compare(baseline(pins=[pin()], waivers=[waiver()]), seen())
    assert kinds(found) == [("waived", False)]
    assert found.found[0].text == "waived by @waves, 30 days left (2026-12-31): vllm#46833"
    assert found.exit_code(["violated"]) is ExitCode.OK


@pytest.mark.parametrize(
    ("today", "kind", "text"),
    [
        ("2026-12-30", "waived", "waived by @waves, 1 day left (2026-12-31): vllm#46833"),
        (
            "2026-12-31",
            "waived",
            "waived by @waves, today is its last day (2026-12-31): vllm#46833",
        ),
        (
            "2027-01-01",
            "expired",
            "violated; its waiver expired on 2026-12-31; ask @waves (vllm#46833)",
        ),
    ],
)
def test_waiver_is_valid_up_to_and_including_its_last_day(today, kind, text):
    found = compare(baseline(waivers=[waiver()]), seen(), today=dt.date.fromisoformat(today))
    assert kinds(found) == [(kind, kind == "expired")]
    assert found.found[0].text == text


@pytest.mark.parametrize(
    "changes",
    [
        {"scenario": "waves/another"},
        {"invariant": "expectation"},
        {"target": "zmq"},
        {"releases": ">=0.25"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_waiver_of_something_else_does_not_cover_it(changes):
    found = compare(baseline(waivers=[waiver(**changes)]), seen(), exists=["waves/another"])
    assert ("regression", True) in kinds(found)
    assert not found.of(Kind.WAIVED)


def test_each_broken_promise_needs_a_waiver_of_its_own():
    found = compare(baseline(waivers=[waiver()]), seen(broken=(PROMISE, "expectation")))
    assert kinds(found) == [("waived", False), ("regression", True)]
    assert found.red[0].invariant == "expectation"


def test_of_two_windows_that_overlap_the_waiver_that_lasts_longest_decides():
    both = [waiver(expires="2026-11-01"), waiver(releases="<0.25", expires="2026-12-24")]
    found = compare(baseline(waivers=both), seen())
    assert found.of(Kind.WAIVED)[0].waiver == 1
    assert not found.red


def test_window_takes_a_release_candidate_of_its_release():
    found = compare(baseline(waivers=[waiver(releases=">=0.24rc1")]), seen(release="0.24.0rc2"))
    assert kinds(found) == [("waived", False)]


def test_known_fault_that_is_not_seen_counts_whatever_is_waived():
    found = compare(baseline(waivers=[waiver()]), held(blind=(PROMISE,)))
    assert ("blind", True) in kinds(found)


def test_unstable_scenario_counts_unless_a_waiver_explains_it():
    unstable = {"status": "unstable", "reason": "repeats differ: 2 held, 1 not judged"}
    assert kinds(compare(baseline(), held(**unstable))) == [("unstable", True)]
    waived = baseline(waivers=[waiver()])
    assert kinds(compare(waived, seen(**unstable))) == [("waived", False)]


# --- coverage -------------------------------------------------------------------------------


def test_scenario_that_was_judged_and_no_longer_is_counts_with_the_reason():
    found = compare(baseline(pins=[pin()]), unjudged())
    assert kinds(found) == [("lost", True)]
    assert found.found[0].text.endswith("it was not: the target cannot")


def test_scenario_that_is_pinned_as_not_judged_may_stay_so_and_may_be_judged():
    base = baseline(pins=[pin(judged=[], not_judged=[RACE])])
    assert kinds(compare(base, unjudged())) == []
    assert kinds(compare(base, unjudged(), strict=True)) == []
    assert kinds(compare(base, held())) == []


def test_new_scenario_passes_only_if_it_holds():
    base = baseline(pins=[pin(judged=["waves/old"])])
    old = held(scenario="waves/old")
    assert kinds(compare(base, old, held())) == []
    assert kinds(compare(base, old, unjudged())) == [("unjudged", True)]
    assert kinds(compare(base, old, seen())) == [("regression", True)]


def test_pinned_scenario_that_is_gone_counts_and_one_that_was_left_out_does_not():
    base = baseline(pins=[pin(judged=[RACE, "waves/gone", "waves/there"])])
    found = compare(base, held(), exists=["waves/there"])
    assert kinds(found) == [("lost", True)]
    assert found.found[0].scenario == "waves/gone"
    assert found.absent == ("waves/there",)
    part = compare(base, held(), partial=True)
    assert kinds(part) == []
    assert part.absent == ("waves/gone", "waves/there")


def test_release_of_which_nothing_is_pinned_counts_although_others_are():
    base = baseline(pins=[pin(releases="==0.24.0")])
    found = compare(base, held(release="0.34.0"))
    assert kinds(found) == [("unpinned", True)]
    assert "it pins vllm-rs ==0.24.0" in found.found[0].text


def test_frontend_that_could_not_be_had_is_an_error_and_not_a_release_without_pins():
    base = baseline(pins=[pin(releases="==0.24.0")])
    assert kinds(compare(base, held(), held(release="", status="error"))) == []


def test_baseline_without_pins_says_nothing_of_coverage():
    assert kinds(compare(baseline(), unjudged())) == []


def test_pins_of_another_release_do_not_miss_what_this_one_lacks():
    base = baseline(pins=[pin(releases="==0.24.0"), pin(releases="==0.23.0", judged=["waves/x"])])
    assert kinds(compare(base, held())) == []


# --- what is stale --------------------------------------------------------------------------


def test_waiver_of_what_holds_is_stale_and_counts_only_if_strict():
    base = baseline(waivers=[waiver()])
    found = compare(base, held())
    assert kinds(found) == [("stale", False)]
    assert found.exit_code(["held"]) is ExitCode.OK
    assert kinds(compare(base, held(), strict=True)) == [("stale", True)]


def test_waiver_of_a_scenario_that_does_not_exist_is_stale_and_of_one_that_was_left_out_is_not():
    base = baseline(waivers=[waiver()])
    other = held(scenario="waves/other")
    assert kinds(compare(base, other)) == [("stale", False)]
    assert kinds(compare(base, other, exists=[RACE])) == []
    assert kinds(compare(base, other, partial=True)) == []


@pytest.mark.parametrize("result", [unjudged(), held(status="error")], ids=["unjudged", "error"])
def test_waiver_of_what_could_not_be_judged_is_not_stale(result):
    assert kinds(compare(baseline(waivers=[waiver()]), result)) == []


def test_expired_waiver_counts_where_nothing_shows_that_it_holds_now():
    base, late = baseline(waivers=[waiver()]), dt.date(2027, 1, 1)
    assert kinds(compare(base, unjudged(), today=late)) == [("expired", True)]
    assert kinds(compare(base, held(), today=late)) == [("stale", False)]


def test_waiver_that_one_of_several_releases_needs_is_not_stale():
    base = baseline(waivers=[waiver(releases="<0.26")])
    assert kinds(compare(base, seen(), held(release="0.25.0"))) == [("waived", False)]


# --- exit codes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["held", "error"], ExitCode.HARNESS),
        (["not_judged"], ExitCode.NOT_JUDGED),
        (["not_judged", "violated"], ExitCode.OK),
        ([], ExitCode.USAGE),
    ],
)
def test_exit_code_without_a_regression_follows_the_statuses(statuses, code):
    assert Comparison(()).exit_code(statuses) is code


def test_regression_stands_before_an_error_and_an_interruption_before_both():
    found = compare(baseline(), seen())
    assert found.exit_code(["violated", "error"]) is ExitCode.VIOLATION
    assert found.exit_code(["violated"], interrupted=True) is ExitCode.INTERRUPTED
