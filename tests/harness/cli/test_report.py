"""`wavecheck report`: what it writes where, and how it ends."""

from __future__ import annotations

import json
import os

import pytest

from harness.reports.schema import FORMS as SCHEMAS
from harness.reports.schema import schema_text
from tests.meta.test_project import DOCS
from tests.support.failures import failing_run, failure_file, wavecheck


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return failing_run(tmp_path_factory.mktemp("run"))


def test_page_of_a_failure_lies_beside_it_without_o(run):
    failure = failure_file(run)
    done = wavecheck("report", failure)
    assert done.exit_code == 0, done.output
    page = failure.with_suffix(".html")
    assert page.read_text().startswith("<!doctype html>")
    assert f"written: {page}" in done.stderr


def test_page_of_a_folder_lies_in_it(run):
    assert wavecheck("report", run.parent).exit_code == 0
    assert (run.parent / "report.html").is_file()


@pytest.mark.parametrize(
    ("ending", "beginning"),
    [
        (".html", "<!doctype html>"), (".xml", "<?xml"), (".json", "{\n"), (".md", "# wavecheck"),
        (".mmd", "sequenceDiagram\n"), (".perfetto.json", '{"displayTimeUnit"'),
    ],
)  # fmt: skip
def test_ending_of_the_output_decides_the_form(run, tmp_path, ending, beginning):
    place = tmp_path / f"out{ending}"
    assert wavecheck("report", run, "-o", place).exit_code == 0
    assert place.read_text().startswith(beginning)


@pytest.mark.parametrize("form", ["junit", "json", "markdown", "mermaid", "perfetto"])
def test_texts_go_to_standard_output_without_o(run, form):
    done = wavecheck("report", run, "--format", form)
    assert done.exit_code == 0
    assert len(done.stdout) > 500


def test_step_summary_is_added_to_the_file_of_the_job(run, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    env = {"GITHUB_STEP_SUMMARY": str(summary)}
    done = wavecheck("report", run, "--step-summary", env=env)
    assert (done.exit_code, done.stdout) == (0, "")
    assert summary.read_text().startswith("before\n# wavecheck: 1 scenario")
    assert not run.with_suffix(".html").exists()


def test_step_summary_without_a_job_is_wrong_use(run, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    done = wavecheck("report", run, "--step-summary")
    assert done.exit_code == 2
    assert "$GITHUB_STEP_SUMMARY is not set" in done.stderr


def test_one_scenario_of_a_run_is_told_alone(run, tmp_path):
    place = tmp_path / "r.json"
    assert (
        wavecheck("report", run, "--scenario", "waves/stale-first-request", "-o", place).exit_code
        == 0
    )
    assert json.loads(place.read_text())["headline"] == "waves/stale-first-request"
    done = wavecheck("report", run, "--scenario", "waves/stale-first-reqest")
    assert done.exit_code == 2
    assert "waves/stale-first-request" in done.stderr


@pytest.mark.parametrize("text", [None, "{", "[]", '{"format": 9, "scenario_text": ""}'])
def test_bad_input_ends_with_2_and_writes_nothing(tmp_path, text):
    given, place = tmp_path / "given.json", tmp_path / "page.html"
    if text is not None:
        given.write_text(text)
    done = wavecheck("report", given, "-o", place)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {given}")
    assert "help:" in done.stderr
    assert not place.exists()


def test_input_is_never_written_over(run):
    done = wavecheck("report", run, "-o", run)
    assert done.exit_code == 2
    assert "is the file that is read" in done.stderr
    json.loads(run.read_text())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_report_that_cannot_be_written_ends_with_3(run):
    done = wavecheck("report", run, "-o", "/dev/full")
    assert done.exit_code == 3
    assert "cannot write /dev/full" in done.stderr


def test_verbose_run_lists_every_event_and_marks_the_witness(tmp_path):
    words = [
        "run",
        "waves/stale-first-request",
        "--mutant",
        "coordinator-rewinds",
        "--out",
        tmp_path,
    ]
    plain, verbose = wavecheck(*words), wavecheck(*words, "--verbose")
    lines = verbose.output.splitlines()
    (marked,) = [line for line in lines if line.startswith("  > #")]
    assert "coordinator: first-request" in marked
    (failure,) = [p for p in tmp_path.glob("*.json") if "never-rewinds" in p.name]
    events = json.loads(failure.read_text())["events"]
    assert sum(line[2:].strip(" >") in events for line in lines) >= len(events)
    assert "events (" not in plain.output


@pytest.mark.parametrize("name", SCHEMAS)
def test_published_schema_is_current(name):
    """Mended by ``python -m harness.reports.schema``."""
    assert (DOCS / name).read_text(encoding="utf-8") == schema_text(name)
