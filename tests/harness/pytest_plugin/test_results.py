"""What becomes of each result, and what is told of it."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from harness.cli import run_plan
from harness.cli.main import cli
from harness.pytest_plugin import playing
from harness.targets.base import TargetError
from tests.harness.pytest_plugin.conftest import fake_result

pytest_plugins = ["pytester"]

STALE = "scenarios/waves/stale-first-request.yaml"


@pytest.fixture
def stale(pytestconfig):
    return pytestconfig.rootpath / STALE


@pytest.fixture
def theirs(monkeypatch):
    """Judge as if the client were not ours: known faults count unless they are allowed."""
    monkeypatch.setattr(run_plan, "OURS", ())


def test_violated_scenario_fails_with_the_text_of_run(run, stale, tmp_path):
    mutant = "coordinator-rewinds"
    words = ["run", "waves/stale-first-request", "--mutant", mutant, "--out", str(tmp_path)]
    said = CliRunner().invoke(cli, words, prog_name="wavecheck")
    result = run(stale, "--wavecheck-mutant", mutant, "--wavecheck-out", tmp_path)
    result.assert_outcomes(failed=1)
    message = said.output.partition("violated[")[2].partition("\n\n")[0].splitlines()
    assert len(message) > 15
    shown = result.stdout.lines
    assert [line for line in message[1:] if line.rstrip() not in map(str.rstrip, shown)] == []
    assert f"violated[{message[0]}" in shown
    result.stdout.fnmatch_lines(
        ["FAILED *stale-first-request - violated?wave.never-rewinds?: the coordinator went from*"]
    )


@pytest.mark.parametrize(
    ("name", "words", "outcome"),
    [
        ("a-held", [], {"passed": 1}),
        ("a-violated", [], {"failed": 1}),
        ("a-nothing", [], {"skipped": 1}),
        ("a-nothing", ["--wavecheck-strict"], {"failed": 1}),
        ("a-should", [], {"passed": 1}),
        ("a-should", ["--wavecheck-strict"], {"failed": 1}),
        ("a-known", [], {"failed": 1}),
        ("a-known", ["--wavecheck-allow-known"], {"xfailed": 1}),
        ("a-known", ["--wavecheck-allow-known", "--runxfail"], {"failed": 1}),
        ("a-blind", [], {"passed": 1}),
        ("a-blind", ["--wavecheck-allow-known"], {"failed": 1}),
        ("a-unstable", [], {"failed": 1}),
        ("a-error", [], {"errors": 1}),
        ("a-raises", [], {"errors": 1}),
    ],
)
def test_each_status_has_its_outcome(run, write, runner, theirs, name, words, outcome):
    result = run(write(name), *words)
    result.assert_outcomes(**outcome)
    assert result.ret == (1 if {"failed", "errors"} & {*outcome} else 0)


def test_reasons_stand_in_the_short_summary(run, write, runner, theirs):
    folder = write("a-nothing", "a-known", "a-blind", "a-error", "a-unstable", "a-raises")
    result = run(folder, "--wavecheck-allow-known", "-ra")
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED [[]1] own/a-nothing.yaml:1: not judged: target lacks op.rank",
            "XFAIL *::a-known - known fault of 0.33.0: wave.never-rewinds",
            "FAILED *::a-blind - blind?wave.never-rewinds?: 0.33.0 is known to violate*",
            "ERROR *::a-error - error: no binary",
            "ERROR *::a-raises - error: RuntimeError: the runner broke (at *",
            "FAILED *::a-unstable - violated?wave.never-rewinds?: went back",
        ]
    )


def test_strict_failure_without_a_message_says_its_reason(run, write, runner):
    result = run(write("a-nothing"), "--wavecheck-strict")
    result.stdout.fnmatch_lines(["FAILED * - not judged: target lacks op.rank"])


def test_junit_tells_failure_error_and_skip_apart(run, write, runner, pytester):
    folder = write("a-held", "a-violated", "a-error", "a-nothing")
    run(folder, "--junitxml", "j.xml")
    root = ET.parse(pytester.path / "j.xml").getroot()
    kinds = {
        case.get("name"): [child.tag for child in case if child.tag != "properties"]
        for case in root.iter("testcase")
    }
    assert kinds == {
        "a-held": [],
        "a-violated": ["failure"],
        "a-error": ["error"],
        "a-nothing": ["skipped"],
    }
    (failure,) = root.iter("failure")
    assert failure.get("message") == "violated[wave.never-rewinds]: went back"
    assert "wavecheck replay out/f.json" in (failure.text or "")


def test_failure_of_an_expectation_names_the_line_of_its_step(run, write, pytester):
    text = (
        "title: t\npromise: p\nrefs: [vllm#1]\nsteps:\n  - fence: true\n"
        "  - expect: {{count: {{event: add, equals: 1}}}}\n"
    )
    folder = write("mine", text=text)
    result = run(folder, "--wavecheck-out", "out", "--tb=line")
    result.assert_outcomes(failed=1)
    (report,) = run_reports(pytester, folder)
    assert report.longrepr.reprcrash.lineno == 6
    assert "mine.yaml:6:5" in str(report.longrepr)


def run_reports(pytester, folder):
    record = pytester.inline_run("-p", "no:cacheprovider", folder, "--wavecheck-out", "out")
    return [report for report in record.getreports("pytest_runtest_logreport") if report.failed]


def test_most_verbose_run_adds_every_event(run, stale, tmp_path):
    words = [stale, "--wavecheck-mutant", "coordinator-rewinds", "--wavecheck-out", tmp_path]
    run(*words, "-vv").stdout.fnmatch_lines(["*events (*, > shows the violation):", "*  > #*"])
    run(*words, "-v").stdout.no_fnmatch_line("*events (*")


def test_colours_are_for_terminals_only(run, stale, tmp_path):
    words = [stale, "--wavecheck-mutant", "coordinator-rewinds", "--wavecheck-out", tmp_path]
    plain = run(*words, "--junitxml", tmp_path / "j.xml").stdout.str()
    assert "\x1b" not in plain
    coloured = run(*words, "--color=yes", "--junitxml", tmp_path / "j.xml").stdout.str()
    assert "\x1b[1;31mviolated[wave.never-rewinds]" in coloured
    assert "#x1B" not in (tmp_path / "j.xml").read_text()


def test_frontend_that_never_starts_ends_the_run(run, write, runner):
    folder = write(*(f"s{i}-nostart" for i in range(6)))
    result = run(folder)
    result.assert_outcomes(errors=3)
    assert "the frontend never got ready in 3 starts" in result.stdout.str()
    assert result.ret == 1


def test_target_that_cannot_be_had_ends_with_three(run, write, monkeypatch):
    from harness.pytest_plugin import playing

    def refuse(_request):
        msg = "no binary for this machine"
        raise TargetError(msg)

    monkeypatch.setattr(playing, "cached_target", refuse)
    result = run(write("a-held"))
    assert result.ret == 3
    assert "no binary for this machine" in result.stdout.str() + result.stderr.str()


def test_interrupted_scenario_interrupts_pytest(pytester, write, monkeypatch):
    from harness.pytest_plugin import playing

    def interrupt(_loaded, _options):
        raise KeyboardInterrupt

    monkeypatch.setattr(playing, "run_scenario", interrupt)
    words = ["-p", "no:cacheprovider", write("a-held", "b-held")]
    assert pytester.inline_run(*words, no_reraise_ctrlc=True).ret == 2


@pytest.mark.parametrize("category", [DeprecationWarning, ResourceWarning, UserWarning])
def test_warnings_that_a_suite_makes_errors_change_no_verdict(
    run, write, monkeypatch, runner, category
):
    import warnings

    from harness.pytest_plugin import playing

    fake = playing.run_scenario

    def warn(loaded, options):
        warnings.warn("old", category, stacklevel=1)
        return fake(loaded, options)

    monkeypatch.setattr(playing, "run_scenario", warn)
    run(write("a-held"), "-W", "error").assert_outcomes(passed=1)


def test_json_is_that_of_a_run_and_names_what_was_left(run, write, runner, pytester):
    folder = write("a-held", "b-violated", "c-held")
    run(folder, "-x", "--wavecheck-json", "r.json")
    document = json.loads((pytester.path / "r.json").read_text())
    assert [one["status"] for one in document["results"]] == ["held", "violated"]
    assert document["not_run"] == ["c-held"]
    assert document["summary"]["exit"] == 1


def test_text_of_a_frontend_is_no_command_to_the_ci_that_runs_pytest(run, write, monkeypatch):
    def play(loaded, options):
        result = fake_result(loaded, options)
        (verdict,) = result.verdicts
        return replace(result, verdicts=(replace(verdict, seen="a log\n::add-mask::x"),))

    monkeypatch.setattr(playing, "run_scenario", play)
    folder = write("a-violated")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = run(folder)
    result.assert_outcomes(failed=1)
    lines = [line.strip() for line in result.stdout.lines if "add-mask" in line]
    assert lines == [": :add-mask::x"]
