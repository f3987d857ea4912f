"""What could not be judged is told together, and none of it is lost."""

from __future__ import annotations

from dataclasses import replace

from harness.reports.not_judged import GROUPS_MAX, Group, groups, not_judged_text
from harness.results import ExpectationResult, ScenarioResult


def open_ones(held: ScenarioResult, **reasons: str) -> list[ScenarioResult]:
    return [
        replace(held, scenario=name, status="not_judged", reason=reason)
        for name, reason in reasons.items()
    ]


def test_what_lacks_several_capabilities_stands_once_where_most_are(held: ScenarioResult) -> None:
    found = groups(
        open_ones(
            held,
            a="target lacks op.http, see.status",
            b="target lacks see.status",
            c="target lacks op.http",
            d="target lacks op.body, see.status",
        )
    )
    assert found == [
        Group("target lacks see.status (status of each answer (HTTP, gRPC))", ("a", "b", "d")),
        Group("target lacks op.http (send any HTTP request)", ("c",)),
    ]


def test_equally_many_are_told_by_the_first_name(held: ScenarioResult) -> None:
    (found,) = groups(open_ones(held, a="target lacks see.unknown, op.unknown"))
    assert found == Group("target lacks op.unknown", ("a",))


def test_other_reasons_are_told_as_they_are_without_what_differs_between_files(
    held: ScenarioResult,
) -> None:
    long = "x" * 300
    found = groups(
        open_ones(
            held,
            a="does not apply to 0.22.0 (applies to >=0.25)",
            b="does not apply to 0.22.0 (applies to >=0.30)",
            c=long,
        )
    )
    assert found[0] == Group("does not apply to 0.22.0", ("a", "b"))
    assert found[1] == Group("x" * 99 + "…", ("c",))


def test_expectations_and_verdicts_that_were_not_judged_give_their_reasons(
    held: ScenarioResult,
) -> None:
    step = ExpectationResult(2, "not_judged", "only <0.25", "release 0.33.0")
    unseen = replace(held, status="not_judged", expectations=(step,), verdicts=())
    (found,) = groups([unseen])
    assert found.reason == "step 2: only <0.25 (release 0.33.0)"


def test_what_was_judged_is_not_told(held: ScenarioResult, violated: ScenarioResult) -> None:
    assert groups([held, violated]) == []
    assert not_judged_text([held, violated]) is None


def test_text_counts_all_and_names_few(held: ScenarioResult) -> None:
    many = open_ones(held, **{f"s{n}": "target lacks op.rank" for n in range(4)})
    text = not_judged_text([*many, *open_ones(held, t="no model")])
    assert text is not None
    assert text.plain.splitlines() == [
        "not judged 5, by reason (each by name: -v, or --json; where one can be played: wavecheck "
        "explain ID):",
        "         4 target lacks op.rank (ask for an explicit data-parallel rank)",
        "         1 no model: t",
    ]


def test_reasons_beyond_a_screen_are_counted(held: ScenarioResult) -> None:
    text = not_judged_text(open_ones(held, **{f"s{n}": f"reason {n}" for n in range(20)}))
    assert text is not None
    lines = text.plain.splitlines()
    assert len(lines) == GROUPS_MAX + 2
    assert lines[-1] == "         5 for 5 other reasons"
