"""`wavecheck baseline`, `run --baseline` and `run --annotations`: files, exit codes, what is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from junitparser import Failure, JUnitXml

from harness.baseline.gate import Kind
from harness.cli import run_cmd
from harness.cli.main import cli
from harness.reports.diagnostic import LEVEL_STYLES

if TYPE_CHECKING:
    from tests.harness.cli.conftest import FakeRunner, Invoke, Write

SIGNED = ("--owner", "@waves", "--reason", "vllm#1", "--expires", "2026-12-31")
BEFORE, LAST, AFTER = "2026-12-01", "2026-12-31", "2027-01-01"


@pytest.fixture
def mixed(folder: Path, write: Write, runner: FakeRunner) -> Path:
    """Scenarios of which one is violated and one is not judged."""
    write(folder, "d-violated", more="invariants: [wave.never-rewinds]\n")
    write(folder, "e-nothing")
    return folder


@pytest.fixture
def run_json(invoke: Invoke, mixed: Path, tmp_path: Path) -> Path:
    file = tmp_path / "run.json"
    assert invoke("run", mixed, "--json", file).exit_code == 1
    return file


@pytest.fixture
def file(invoke: Invoke, run_json: Path, tmp_path: Path) -> Path:
    """The baseline of that run."""
    found = tmp_path / "baseline.yaml"
    done = invoke("baseline", "write", run_json, "-o", found, *SIGNED, "--today", BEFORE)
    assert done.exit_code == 0, done.output
    return found


def data(path: Path) -> dict:
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)


# --- run ------------------------------------------------------------------------------------


def test_run_with_its_own_baseline_passes_and_shows_what_is_waived(invoke, mixed, file):
    done = invoke("run", mixed, "--baseline", file, "--today", LAST)
    assert done.exit_code == 0, done.output
    assert "waived     d-violated" in done.output
    assert "today is its last day (2026-12-31): vllm#1" in done.output
    assert "exit 0: no regression (1 waived)" in done.output


def test_run_without_the_baseline_is_still_red(invoke, mixed, file):
    assert invoke("run", mixed).exit_code == 1


def test_run_after_the_last_day_is_red_and_says_who_to_ask(invoke, mixed, file):
    done = invoke("run", mixed, "--baseline", file, "--today", AFTER)
    assert done.exit_code == 1
    assert "expired[wave.never-rewinds]: violated; its waiver expired on 2026-12-31" in done.output
    assert "ask @waves" in done.output
    line = file.read_text().splitlines().index("  - scenario: d-violated") + 1
    assert f"--> {file}:{line}:5" in done.output
    assert "not what the baseline says (1 expired)" in done.output


def test_run_with_a_new_violation_is_red(invoke, write, mixed, file):
    write(mixed, "f-violated")
    done = invoke("run", mixed, "--baseline", file, "--today", BEFORE)
    assert done.exit_code == 1
    assert "regression[wave.never-rewinds]: violated, and no waiver accepts it" in done.output
    assert "(1 regression, 1 waived)" in done.output


def test_what_was_not_judged_has_its_own_line_in_a_run_of_many_where_the_baseline_says_otherwise(
    invoke, mixed, file, monkeypatch
):
    monkeypatch.setattr(run_cmd, "EACH_MAX", 0)
    done = invoke("run", mixed, "--baseline", file, "--today", BEFORE)
    assert "\nnot judged 1, by reason " in done.output
    assert "not judged e-nothing" not in done.output
    file.write_text(file.read_text().replace("    not_judged:\n", ""))
    done = invoke("run", mixed, "--baseline", file, "--today", BEFORE)
    assert "not judged e-nothing" in done.output
    assert ", by reason " not in done.output


def test_run_that_lost_a_scenario_or_its_verdict_is_red(invoke, mixed, file, tmp_path):
    text = file.read_text()
    file.write_text(
        text.replace("    not_judged:\n", "").replace(
            "      - a-held\n", "      - a-held\n      - gone\n"
        )
    )
    junit = tmp_path / "o.xml"
    done = invoke("run", mixed, "--baseline", file, "--today", BEFORE, "--junit", junit)
    assert done.exit_code == 1
    (suite,) = JUnitXml.fromfile(str(junit))
    failed = [case.name for case in suite if any(type(r) is Failure for r in case.result)]
    assert failed == ["e-nothing [0.33.0]"]
    assert "lost: the baseline says that it is judged, and it was not: target lacks" in done.output
    assert "lost: gone is no longer judged" in done.output
    assert "2 lost" in done.output


def test_run_of_a_part_does_not_miss_the_rest(invoke, mixed, file):
    done = invoke("run", mixed, "-k", "a-held", "--baseline", file, "--today", BEFORE)
    assert done.exit_code == 0, done.output
    assert "3 pinned scenarios not played, so not compared" in done.output


def test_stale_waiver_is_a_note_and_red_with_strict(invoke, mixed, file):
    text = file.read_text().replace("scenario: d-violated", "scenario: a-held")
    file.write_text(text)
    (mixed / "d-violated.yaml").unlink()
    file.write_text(file.read_text().replace("      - d-violated\n", ""))
    done = invoke("run", mixed, "--baseline", file, "--today", BEFORE)
    assert done.exit_code == 0, done.output
    assert "note[wave.never-rewinds]: a-held has a waiver that it does not need" in done.output
    strict = invoke("run", mixed, "--baseline", file, "--today", BEFORE, "--strict")
    assert strict.exit_code == 1
    assert "stale[wave.never-rewinds]" in strict.output


def test_json_and_junit_say_what_the_exit_code_says(invoke, mixed, file, tmp_path):
    out, junit = tmp_path / "o.json", tmp_path / "o.xml"
    words = ("--baseline", file, "--json", out, "--junit", junit)
    assert invoke("run", mixed, *words, "--today", BEFORE).exit_code == 0
    document = json.loads(out.read_text())
    assert document["summary"]["exit"] == 0
    (found,) = document["baseline"]["found"]
    assert (found["kind"], found["counts"], found["scenario"]) == ("waived", False, "d-violated")
    suite = JUnitXml.fromfile(str(junit))
    assert (suite.failures, suite.skipped) == (0, 2)
    assert invoke("run", mixed, *words, "--today", AFTER).exit_code == 1
    assert json.loads(out.read_text())["summary"]["exit"] == 1
    assert JUnitXml.fromfile(str(junit)).failures == 1


def test_report_of_a_waived_run_says_so_in_each_form(invoke, mixed, file, tmp_path):
    out = tmp_path / "o.json"
    assert invoke("run", mixed, "--baseline", file, "--today", BEFORE, "--json", out).exit_code == 0
    summary = invoke("report", out, "--format", "markdown").output
    assert "| waived | 1 |" in summary
    assert "no regression (1 waived)" in summary
    assert "## waived:" in summary
    assert 'type="waived"' in invoke("report", out, "--format", "junit").output


def test_wrong_baseline_ends_with_2_before_anything_is_played(invoke, mixed, runner, tmp_path):
    wrong = tmp_path / "b.yaml"
    wrong.write_text(
        "format: 1\nwaivers:\n  - scenario: a\n    invariant: expectation\n    target: sim\n    owner: me\n    reason: r\n"
    )
    done = invoke("run", mixed, "--baseline", wrong)
    assert done.exit_code == 2
    assert "key 'expires' is missing in waivers[0]" in done.stderr
    assert f"{wrong}:3:5" in done.stderr
    assert runner.calls == []
    assert invoke("run", mixed, "--baseline", tmp_path / "none.yaml").exit_code == 2


def test_day_without_a_baseline_and_a_wrong_day_are_wrong_use(invoke, mixed):
    assert "does not go without --baseline" in invoke("run", mixed, "--today", AFTER).stderr
    done = invoke("run", mixed, "--today", "tomorrow")
    assert done.exit_code == 2
    assert "is no day" in done.stderr


# --- annotations ----------------------------------------------------------------------------


def commands(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("::")]


def test_violation_is_annotated_at_the_line_that_names_the_invariant(
    invoke, mixed, monkeypatch, tmp_path
):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    (line,) = commands(invoke("run", mixed).output)
    assert line.startswith("::error file=own/d-violated.yaml,line=4,col=14,title=wavecheck%3A ")
    assert "::went back%0A" in line


def test_annotations_are_off_outside_of_a_job_and_can_be_asked_for_or_refused(
    invoke, mixed, monkeypatch
):
    assert commands(invoke("run", mixed).output) == []
    assert len(commands(invoke("run", mixed, "--annotations", "github").output)) == 1
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert commands(invoke("run", mixed, "--annotations", "none").output) == []


def test_expired_waiver_is_annotated_at_its_line_and_not_at_the_scenario(
    invoke, mixed, file, monkeypatch, tmp_path
):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    words = ("--baseline", file, "--annotations", "github")
    (line,) = commands(invoke("run", mixed, *words, "--today", AFTER).output)
    number = file.read_text().splitlines().index("  - scenario: d-violated") + 1
    assert line.startswith(f"::error file=baseline.yaml,line={number},title=wavecheck%3A expired")
    (soon,) = commands(invoke("run", mixed, *words, "--today", LAST).output)
    assert soon.startswith("::warning file=baseline.yaml")
    assert commands(invoke("run", mixed, *words, "--today", BEFORE).output) == []


def test_log_line_that_looks_like_a_command_is_defused_in_a_job(invoke, mixed, runner, monkeypatch):
    def play(loaded, options):
        result = runner(loaded, options)
        (verdict,) = result.verdicts
        return replace(result, verdicts=(replace(verdict, seen="a log\n::add-mask::x"),))

    monkeypatch.setattr(run_cmd, "run_scenario", play)
    words = ("run", mixed / "d-violated.yaml", "--annotations", "none")
    assert "\n             ::add-mask::x\n" in invoke(*words).output
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "\n             : :add-mask::x\n" in invoke(*words).output


# --- write ----------------------------------------------------------------------------------


def test_write_pins_and_waives_what_the_run_came_to(file):
    assert data(file)["pins"] == [
        {
            "target": "sim",
            "judged": ["a-held", "b-held", "c-held", "d-violated"],
            "not_judged": ["e-nothing"],
        }
    ]
    (waiver,) = data(file)["waivers"]
    assert waiver == {
        "scenario": "d-violated",
        "invariant": "wave.never-rewinds",
        "target": "sim",
        "owner": "@waves",
        "reason": "vllm#1",
        "expires": "2026-12-31",
    }


@pytest.mark.parametrize("left_out", [0, 2, 4], ids=["owner", "reason", "expires"])
def test_write_refuses_a_waiver_without_owner_reason_or_expiry(
    invoke, run_json, tmp_path, left_out
):
    words = [*SIGNED[:left_out], *SIGNED[left_out + 2 :]]
    out = tmp_path / "b.yaml"
    done = invoke("baseline", "write", run_json, "-o", out, *words, "--today", BEFORE)
    assert done.exit_code == 2
    assert f"1 violation to waive, and {SIGNED[left_out]} not given" in done.stderr
    assert not out.exists()


def test_write_refuses_a_day_that_is_over(invoke, run_json, tmp_path):
    words = ("baseline", "write", run_json, "-o", tmp_path / "b.yaml", *SIGNED)
    done = invoke(*words, "--today", AFTER)
    assert done.exit_code == 2
    assert "2026-12-31 is over" in done.stderr


def test_write_does_not_overwrite_a_file_and_updates_it_on_request(
    invoke, write, mixed, file, run_json, tmp_path
):
    text = file.read_text() + "# the end, by hand\n"
    file.write_text(text)
    done = invoke("baseline", "write", run_json, "-o", file, *SIGNED, "--today", BEFORE)
    assert done.exit_code == 2
    assert file.read_text() == text
    write(mixed, "f-violated")
    second = tmp_path / "second.json"
    invoke("run", mixed, "--json", second)
    words = ("--owner", "@other", "--reason", "new", "--expires", "5d", "--update")
    done = invoke("baseline", "write", second, "-o", file, *words, "--today", BEFORE)
    assert done.exit_code == 0, done.output
    owners = [(one["scenario"], one["owner"], one["expires"]) for one in data(file)["waivers"]]
    assert owners == [
        ("d-violated", "@waves", "2026-12-31"),
        ("f-violated", "@other", "2026-12-06"),
    ]
    assert "f-violated" in data(file)["pins"][0]["judged"]
    assert file.read_text().endswith("# the end, by hand\n")


def test_update_never_renews_a_waiver_that_has_expired(invoke, run_json, file):
    before = file.read_text()
    done = invoke("baseline", "write", run_json, "-o", file, "--update", "--today", AFTER)
    assert done.exit_code == 0, done.output
    assert file.read_text() == before


def test_write_from_a_failure_file_waives_and_pins_nothing(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--mutant", "coordinator-rewinds", "--out", "out")
    assert invoke("run", "waves/stale-first-request", *words).exit_code == 1
    done = invoke("baseline", "write", "out", "-o", "b.yaml", *SIGNED, "--today", BEFORE)
    assert done.exit_code == 0, done.output
    found = data(Path("b.yaml"))
    assert found["pins"] == []
    assert [one["invariant"] for one in found["waivers"]] == ["wave.never-rewinds"]


# --- check, list, prune ---------------------------------------------------------------------


def test_check_agrees_with_run(invoke, mixed, file, run_json, tmp_path):
    out = tmp_path / "check.json"
    for day, code in ((LAST, 0), (AFTER, 1)):
        words = ("baseline", "check", run_json, "--baseline", file, "--today", day)
        done = invoke(*words, "--json", out)
        assert done.exit_code == code, done.output
        ran = tmp_path / "ran.json"
        invoke("run", mixed, "--baseline", file, "--today", day, "--json", ran)
        assert json.loads(out.read_text())["exit"] == code
        assert json.loads(out.read_text())["baseline"] == json.loads(ran.read_text())["baseline"]


def test_check_refuses_failure_files_other_json_and_newer_ones(invoke, file, run_json, tmp_path):
    other = tmp_path / "x.json"
    other.write_text("{}")
    newer = tmp_path / "newer.json"
    newer.write_text(json.dumps({**json.loads(run_json.read_text()), "schema": 2}))
    for given, text in ((other, "neither the results"), (newer, "made by a newer wavecheck")):
        done = invoke("baseline", "check", given, "--baseline", file)
        assert done.exit_code == 2
        assert text in done.stderr


def test_list_shows_what_ends_first_and_what_has_expired(invoke, file, tmp_path):
    done = invoke("baseline", "list", file, "--today", AFTER)
    assert done.exit_code == 0
    assert "expired    d-violated [wave.never-rewinds] on sim: expired on 2026-12-31" in done.output
    assert "pinned     sim (all releases): 4 judged, 1 not judged" in done.output
    out = tmp_path / "l.json"
    assert invoke("baseline", "list", file, "--today", LAST, "--json", out).exit_code == 0
    assert json.loads(out.read_text())["waivers"][0]["days_left"] == 0


def test_prune_removes_what_is_stale_and_gone_and_keeps_comments(invoke, mixed, file, tmp_path):
    file.write_text("# by hand\n" + file.read_text())
    (mixed / "d-violated.yaml").unlink()
    later = tmp_path / "later.json"
    assert invoke("run", mixed, "--json", later).exit_code == 0
    before = file.read_text()
    words = ("baseline", "prune", later, "--baseline", file, "--today", BEFORE)
    assert "would go" in invoke(*words, "--dry-run").output
    assert file.read_text() == before
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    assert data(file)["waivers"] == []
    assert data(file)["pins"][0]["judged"] == ["a-held", "b-held", "c-held"]
    assert file.read_text().startswith("# by hand\n")
    assert invoke("run", mixed, "--baseline", file).exit_code == 0


def test_every_kind_of_finding_has_a_colour():
    assert {str(kind) for kind in Kind} <= {*LEVEL_STYLES}


def test_baseline_is_a_command():
    assert {"write", "check", "list", "prune"} == {*cli.commands["baseline"].commands}  # type: ignore[attr-defined]
