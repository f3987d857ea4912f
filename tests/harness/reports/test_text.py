"""Results for people."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from harness.reports.diagnostic import Diagnostic, Excerpt, plain, render
from harness.reports.text import (
    InvariantDoc,
    Origin,
    diagnostics,
    label,
    result_line,
    summary_line,
)
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.verdict import ExitCode


def test_violation_is_one_screen_with_everything_on_it(
    violated: ScenarioResult, doc: InvariantDoc
) -> None:
    (message,) = diagnostics(violated, doc)
    assert plain(message) == (
        "violated[wave.never-rewinds]: the coordinator went from wave 5 back to 4\n"
        "  --> waves/stale (profile 0.24.0, mutant coordinator-rewinds)\n"
        "  statement: The current wave never gets smaller.\n"
        "  expected:  current wave >= 5\n"
        "  seen:      current wave == 4 at event 118\n"
        "  witness:\n"
        "                      client   coordinator\n"
        "    #97  t=0.400s        |           *       coordinator: first-request wave=5\n"
        "    #118 t=0.412s        |           *       coordinator: first-request wave=4\n"
        "  why:       Ranks that count waves apart wait for each other for ever.\n"
        "  source:    vllm#46833\n"
        "  help:      wavecheck replay wavecheck-out/waves-stale.json"
    )


def test_violated_expectation_names_its_step_and_shows_both_sides(
    held: ScenarioResult, doc: InvariantDoc
) -> None:
    broken = replace(
        held,
        status="violated",
        expectations=(ExpectationResult(3, "violated", "a: outcome = 'finished'", "a: 'pending'"),),
        failure_file="out/f.json",
    )
    (message,) = diagnostics(broken, doc)
    assert plain(message) == (
        "violated[expectation]: step 3 of the scenario did not see what it expects\n"
        "  --> waves/stale (profile 0.24.0)\n"
        "  title:     a stale request\n"
        "  expected:  a: outcome = 'finished'\n"
        "  seen:      a: 'pending'\n"
        "  source:    vllm#46833\n"
        "  help:      wavecheck replay out/f.json"
    )


def test_error_says_what_failed(held: ScenarioResult, doc: InvariantDoc) -> None:
    (message,) = diagnostics(replace(held, status="error", error="no binary"), doc)
    assert plain(message) == "error: no binary\n  --> waves/stale (profile 0.24.0)"


def test_what_failed_after_a_violation_is_told_behind_it(
    violated: ScenarioResult, doc: InvariantDoc
) -> None:
    first, *more = diagnostics(violated, doc)
    again = diagnostics(replace(violated, error="the adapter ended"), doc)
    assert again[0] == first
    assert [one.title for one in again[1:]] == ["after the violation was seen: the adapter ended"]
    assert more == []


def test_predicted_violation_is_called_known(violated: ScenarioResult, doc: InvariantDoc) -> None:
    known = replace(violated, known=("wave.never-rewinds",))
    assert diagnostics(known, doc)[0].level == "known"
    assert label(known, allow_known=True) == "known"
    assert label(known, allow_known=False) == "violated"


def test_known_violation_says_whose_fault_it_is_and_why(
    violated: ScenarioResult, doc: InvariantDoc
) -> None:
    because = (("wave.never-rewinds", "a fault of vllm-rs: it goes back (https://a.example)"),)
    known = replace(violated, known=("wave.never-rewinds",), known_because=because)
    (message,) = diagnostics(known, doc)
    assert "  known:     a fault of vllm-rs: it goes back (https://a.example)\n" in plain(message)
    line = summary_line([known], ExitCode.OK, allow_known=True).plain
    assert line.endswith("exit 0: no violation but known ones")


def test_missing_prediction_is_called_blind_where_known_is_allowed(
    held: ScenarioResult, doc: InvariantDoc
) -> None:
    blind = replace(held, known=("wave.never-rewinds",))
    assert (label(blind, allow_known=True), label(blind, allow_known=False)) == ("blind", "held")
    assert diagnostics(blind, doc) == []
    (message,) = diagnostics(blind, doc, allow_known=True)
    assert message.title == (
        "0.24.0 is known to violate wave.never-rewinds, and this run did not see it"
    )


def test_witness_of_two_violations_is_not_mixed(
    violated: ScenarioResult, doc: InvariantDoc
) -> None:
    second = replace(violated.verdicts[0], witness=(118,))
    (message,) = diagnostics(replace(violated, verdicts=(second, *violated.verdicts)), doc)
    assert message.evidence == ("#118  t=0.412s  coordinator: first-request wave=4",)


def test_further_violations_are_listed_below_the_first(
    violated: ScenarioResult, doc: InvariantDoc
) -> None:
    should = replace(violated.verdicts[0], level="should", message="slow")
    broken = replace(
        violated,
        expectations=(ExpectationResult(3, "violated", "wave = 5", "wave = 4"),),
        verdicts=(should, *violated.verdicts),
    )
    (message,) = diagnostics(broken, doc)
    assert message.title == "the coordinator went from wave 5 back to 4"
    assert message.also == (
        "step 3 of the scenario did not see what it expects (expected wave = 5; seen wave = 4)",
        "wave.never-rewinds: slow",
    )


def test_violation_that_nothing_predicts_comes_before_a_known_one(
    violated: ScenarioResult, doc: InvariantDoc
) -> None:
    broken = replace(
        violated,
        known=("wave.never-rewinds",),
        expectations=(ExpectationResult(3, "violated", "wave = 5", "wave = 4"),),
    )
    (message,) = diagnostics(broken, doc)
    assert (message.level, message.code) == ("violated", "expectation")
    assert message.also == ("wave.never-rewinds: the coordinator went from wave 5 back to 4",)


def test_long_witness_is_cut_and_counted(violated: ScenarioResult, doc: InvariantDoc) -> None:
    lines = tuple(f"#{n}  event" for n in range(50))
    verdict = replace(violated.verdicts[0], witness=tuple(range(50)))
    (message,) = diagnostics(replace(violated, verdicts=(verdict,), witness_lines=lines), doc)
    assert len(message.evidence) == 31
    assert message.evidence[-1] == "... and 20 more events, in the failure file"


def test_result_line_names_status_scenario_profile_and_mutant(
    held: ScenarioResult, violated: ScenarioResult
) -> None:
    assert result_line(held).plain == "held       waves/stale  0.24.0  (20 schedules, 0.25 s)"
    assert result_line(violated).plain == (
        "violated   waves/stale  0.24.0  mutant coordinator-rewinds  (20 schedules, 0.25 s)"
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"reason": "target lacks op.rank"}, "target lacks op.rank"),
        (
            {"expectations": (ExpectationResult(1, "not_judged", "only >=0.28", "release 0.24"),)},
            "step 1: only >=0.28 (release 0.24)",
        ),
        (
            {
                "expectations": (),
                "verdicts": (VerdictResult("a", "must", "not_judged", "never exercised"),),
            },
            "never exercised",
        ),
        ({"expectations": (), "verdicts": ()}, "nothing that it expects was exercised"),
    ],
)
def test_not_judged_gives_its_reason(
    held: ScenarioResult, changes: dict[str, object], why: str
) -> None:
    line = result_line(replace(held, status="not_judged", schedules=0, **changes))  # type: ignore[arg-type]
    assert line.plain == f"not judged waves/stale  0.24.0  (0.25 s)\n           {why}"


def test_summary_counts_and_says_what_the_exit_code_means(
    held: ScenarioResult, violated: ScenarioResult
) -> None:
    known = replace(violated, known=("wave.never-rewinds",))
    assert summary_line([held, violated, known], ExitCode.VIOLATION).plain == (
        "1 held, 2 violated (1 known), 0 not judged, 0 error; exit 1: violated"
    )


def test_colours_appear_on_a_terminal_only() -> None:
    message = render(Diagnostic("error", "x [not markup] :smile:"))
    pipe, terminal = StringIO(), StringIO()
    Console(file=pipe).print(message)
    Console(file=terminal, force_terminal=True, color_system="standard").print(message)
    assert pipe.getvalue() == "error: x [not markup] :smile:\n"
    assert "\x1b[" in terminal.getvalue()


def test_caret_stands_below_its_column_behind_tabs_and_escapes() -> None:
    excerpt = Excerpt(2, 4, "\ta\x07b")
    assert plain(Diagnostic("error", "t", excerpt=excerpt)).splitlines()[1:] == [
        "    2 |  a\\x07b",
        "      |       ^",
    ]


def test_violated_should_is_a_remark_unless_strict(
    held: ScenarioResult, violated: ScenarioResult, doc: InvariantDoc
) -> None:
    should = replace(violated.verdicts[0], level="should")
    result = replace(held, verdicts=(should,))
    assert diagnostics(result, doc) == []
    assert [d.level for d in diagnostics(result, doc, strict=True)] == ["violated"]
    assert result_line(result).plain.endswith(
        "\n           wave.never-rewinds (should) is violated; --strict counts it"
    )


def test_strict_summary_says_what_counted(held: ScenarioResult, violated: ScenarioResult) -> None:
    should = replace(held, verdicts=(replace(violated.verdicts[0], level="should"),))
    unjudged = replace(held, status="not_judged", expectations=(), verdicts=())

    def meaning(*results: ScenarioResult, **flags: bool) -> str:
        line = summary_line(results, ExitCode.VIOLATION, **flags).plain
        return line.partition("exit 1: ")[2]

    assert meaning(should, strict=True) == "1 should-rule violated (--strict)"
    assert meaning(should, should, unjudged, strict=True) == (
        "2 should-rules violated (--strict), 1 not judged (--strict)"
    )
    assert meaning(violated, should, strict=True) == ("violated, 1 should-rule violated (--strict)")
    blind = replace(held, known=("wave.never-rewinds",))
    assert meaning(blind, allow_known=True) == "1 known violation not seen (--allow-known)"
    assert meaning(violated, should) == "violated"


def test_violated_should_shows_its_own_events(
    held: ScenarioResult, violated: ScenarioResult, doc: InvariantDoc
) -> None:
    should = replace(violated.verdicts[0], level="should")
    lines = (("wave.never-rewinds", ("#97  t=0.4s  a", "#118  t=0.5s  b")),)
    result = replace(held, verdicts=(should,), should_lines=lines)
    (message,) = diagnostics(result, doc, strict=True)
    assert message.evidence == ("#97  t=0.4s  a", "#118  t=0.5s  b")


def test_violation_without_a_file_says_why(violated: ScenarioResult, doc: InvariantDoc) -> None:
    lost = replace(violated, failure_file=None, failure_file_error="disk full")
    (message,) = diagnostics(lost, doc)
    assert message.help == "no failure file to replay: disk full; see --out"


def test_error_without_a_profile_has_no_empty_brackets(
    held: ScenarioResult, doc: InvariantDoc
) -> None:
    (message,) = diagnostics(replace(held, status="error", error="x", profile=""), doc)
    assert message.where == "waves/stale"


def test_lines_of_a_message_stay_below_each_other_and_cannot_pass_for_ours() -> None:
    message = Diagnostic("error", "it differs:\n  here", expected="a\n  --> b\x07")
    assert plain(message) == (
        "error: it differs:\n      here\n  expected:  a\n               --> b\\x07"
    )


def test_replay_command_fits_a_shell(violated: ScenarioResult, doc: InvariantDoc) -> None:
    spaced = replace(violated, failure_file="my out/a$b.json")
    (message,) = diagnostics(spaced, doc)
    assert message.help == "wavecheck replay 'my out/a$b.json'"


def test_unstable_result_says_how_its_repeats_differ(
    violated: ScenarioResult, doc: InvariantDoc
) -> None:
    unstable = replace(
        violated,
        status="unstable",
        reason="repeats differ: 2 held, 1 violated",
        repeats=("held", "violated", "held"),
    )
    lines = result_line(unstable).plain.splitlines()
    assert lines[0].startswith("unstable   waves/stale")
    assert "(3 repeats, 20 schedules, 0.25 s)" in lines[0]
    assert lines[1].strip() == "repeats differ: 2 held, 1 violated"
    assert [message.level for message in diagnostics(unstable, doc)] == ["violated"]
    text = summary_line([unstable], ExitCode.VIOLATION).plain
    assert text == "0 held, 0 violated, 0 not judged, 0 error, 1 unstable; exit 1: 1 unstable"


def test_message_about_a_file_of_the_users_own_names_the_line_of_its_step(
    held: ScenarioResult, violated: ScenarioResult, doc: InvariantDoc
) -> None:
    origin = Origin("my/own.yaml", ((4, 5), (9, 3)))
    step = ExpectationResult(1, "violated", "a", "b")
    failed = replace(held, status="violated", expectations=(step,))
    (message,) = diagnostics(failed, doc, origin=origin)
    assert message.where.startswith("my/own.yaml:9:3 (")
    (message, *_) = diagnostics(violated, doc, origin=origin)
    assert message.where.startswith("my/own.yaml (")
    broken = replace(held, status="error", error="x")
    (message,) = diagnostics(broken, doc, origin=origin)
    assert message.where.startswith("my/own.yaml (")


@pytest.mark.parametrize(
    "expected",
    [
        "1 × utility x comes to its end",
        "a: outcome = 'step 1 (fence) comes to its end'",
        "step 2 (fence) comes to its end",
        "step 1 (fence) comes to its end.",
    ],
)
def test_expectation_whose_words_end_like_those_of_a_step_is_still_one(expected: str) -> None:
    step = ExpectationResult(1, "violated", expected, "b")
    assert step.title == "step 1 of the scenario did not see what it expects"
    ended = ExpectationResult(1, "violated", "step 1 (wait for 2 × add) comes to its end", "b")
    assert ended.title == "step 1 of the scenario does not come to its end"


def test_message_about_a_step_shows_its_line_also_of_a_built_in_scenario(
    held: ScenarioResult, doc: InvariantDoc
) -> None:
    lines = ("steps:", "  - finish: a", "  - fence: true")
    step = ExpectationResult(1, "violated", "step 1 (fence) comes to its end", "it waits\n  on")
    failed = replace(held, status="violated", expectations=(step,))
    origin = Origin("waves/stale", ((2, 5), (3, 5)), lines, builtin=True)
    (message,) = diagnostics(failed, doc, origin=origin)
    assert message.where.startswith("waves/stale (")
    assert message.title == "step 1 of the scenario does not come to its end"
    assert "\n    3 |   - fence: true\n      |     ^\n" in plain(message)
    mine = replace(origin, file="my.yaml", builtin=False)
    (message,) = diagnostics(failed, doc, origin=mine)
    assert message.where.startswith("my.yaml:3:5 (")


@pytest.mark.parametrize("steps", [(), ((2, 5), (9, 1)), ((2, 5), (0, 1))])
def test_step_whose_line_is_not_known_is_told_without_it(
    held: ScenarioResult, doc: InvariantDoc, steps: tuple[tuple[int, int], ...]
) -> None:
    failed = replace(
        held, status="violated", expectations=(ExpectationResult(1, "violated", "a", "b"),)
    )
    (message,) = diagnostics(failed, doc, origin=Origin("my.yaml", steps, ("steps:", "  - a")))
    assert message.excerpt is None


def test_values_of_many_lines_are_one_line_below_another_message(
    violated: ScenarioResult, doc: InvariantDoc
) -> None:
    step = ExpectationResult(3, "violated", "a", "it waits\n  on engine 1")
    (message,) = diagnostics(replace(violated, expectations=(step,)), doc)
    assert message.also[0].endswith("(expected a; seen it waits; on engine 1)")
