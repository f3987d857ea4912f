"""Every form that outlives a command: older, current and newer versions, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import formats
from harness.baseline.model import FORMAT as BASELINE_FORMAT
from harness.capture.file import FORMAT_VERSION, HEADER_KEY
from harness.failure import FORMAT as FAILURE_FORMAT
from harness.failure import SINCE_2, SINCE_3, SINCE_4
from harness.formats import FORMS, refusal
from harness.reports.json_report import SCHEMA
from harness.targets.adapter.agreed import VERSIONS
from harness.verdict import ExitCode
from tests.meta.test_project import DOCS
from tests.support.failures import failing_run, failure_file, wavecheck

SCENARIO = """\
title: t
promise: p
refs: [vllm#1]
steps:
  - fence: true
"""
BASELINE = "format: 1\npins:\n  - {target: sim, judged: [waves/stale-first-request]}\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The JSON of a run, with its failure file beside it."""
    return failing_run(tmp_path_factory.mktemp("run"))


def with_version(given: Path, place: Path, **version: object) -> Path:
    """The same JSON document with another version."""
    document = {**json.loads(given.read_text(encoding="utf-8")), **version}
    place.write_text(json.dumps(document), encoding="utf-8")
    return place


def as_format(given: Path, place: Path, number: int) -> Path:
    """A failure file as an older version wrote it."""
    lacking = [SINCE_2, SINCE_3, SINCE_4][number - 1 :]
    document = json.loads(given.read_text(encoding="utf-8"))
    kept = {k: v for k, v in document.items() if not any(k in since for since in lacking)}
    place.write_text(json.dumps({**kept, "format": number}), encoding="utf-8")
    return place


# --- the table ------------------------------------------------------------------------------


def test_table_names_the_versions_that_the_code_writes():
    assert formats.FAILURE.current == FAILURE_FORMAT
    assert formats.BASELINE.current == BASELINE_FORMAT
    assert formats.RUN.current == formats.MATRIX.current == formats.REPORT.current == SCHEMA
    assert (formats.CAPTURE.key, formats.CAPTURE.current) == (HEADER_KEY, FORMAT_VERSION)
    assert tuple(formats.ADAPTER.versions) == VERSIONS
    schema = json.loads((DOCS.parent / "scenarios" / "schema.json").read_text(encoding="utf-8"))
    assert schema["properties"]["format"]["const"] == formats.SCENARIO.current


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.id)
def test_version_is_read_refused_as_older_or_refused_as_newer(form):
    for version in form.versions:
        assert refusal(form, version) is None
    newer = refusal(form, form.current + 1, "9.9.9")
    assert newer is not None
    assert (
        newer.title
        == f"has {form.key} {form.current + 1}, this version reads {form.key} {form.reads}"
    )
    assert "made by a newer wavecheck (9.9.9)" in newer.help
    older = refusal(form, form.oldest - 1)
    assert older is not None
    assert "made by an older wavecheck" in older.help
    assert "two minor releases" in older.help
    assert older.help.endswith(form.again)


@pytest.mark.parametrize("version", [None, True, 1.0, "1", [1]])
def test_version_that_is_no_whole_number_is_refused(version):
    refused = refusal(formats.RUN, version)
    assert refused is not None
    assert "is a whole number" in refused.help


def test_page_states_the_window_and_every_exit_code_has_one_meaning():
    text = (DOCS / "formats.md").read_text(encoding="utf-8")
    assert "at least two minor releases of wavecheck, and for six months" in text
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4, 130, 141]


# --- scenarios and baselines ----------------------------------------------------------------


def test_scenario_without_and_with_the_current_version_is_the_same(tmp_path):
    digests = []
    for name, head in (("a", ""), ("b", "format: 1\n")):
        file, out = tmp_path / name / "x.yaml", tmp_path / f"{name}.json"
        file.parent.mkdir()
        file.write_text(head + SCENARIO)
        wavecheck("run", file, "--json", out)
        (result,) = json.loads(out.read_text())["results"]
        digests.append(result["digest"])
    assert digests[0] == digests[1]


@pytest.mark.parametrize(("version", "said"), [("2", "newer"), ("0", "older")])
@pytest.mark.parametrize("command", ["run", "validate", "migrate"])
def test_scenario_of_another_version_is_refused_at_its_line_and_for_that_alone(
    tmp_path, command, version, said
):
    file = tmp_path / "x.yaml"
    file.write_text(f"format: {version}\nunheard: of\n{SCENARIO}")
    done = wavecheck(command, file)
    assert done.exit_code == 2
    text = done.output
    assert f"has format {version}, this version reads format 1" in text
    assert f"made by {'a newer' if said == 'newer' else 'an older'} wavecheck" in text
    assert f"{file}:1:9" in text
    assert "unheard" not in text


def test_baseline_of_a_newer_version_is_refused(tmp_path, run):
    file = tmp_path / "b.yaml"
    file.write_text(BASELINE.replace("format: 1", "format: 2"))
    done = wavecheck("baseline", "check", run, "--baseline", file)
    assert done.exit_code == 2
    assert "made by a newer wavecheck" in done.stderr


# --- JSON -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "said"), [(2, "a newer wavecheck"), (0, "an older wavecheck")])
@pytest.mark.parametrize("command", ["report", "baseline", "migrate"])
def test_run_of_another_version_is_refused_with_what_to_do(tmp_path, run, command, version, said):
    other = with_version(run, tmp_path / "run.json", schema=version)
    base = tmp_path / "b.yaml"
    base.write_text(BASELINE)
    words = {"baseline": ["baseline", "check", other, "--baseline", base]}
    done = wavecheck(*words.get(command, [command, other]))
    assert done.exit_code == 2
    assert f"has schema {version}, this version reads schema 1" in done.stderr
    assert f"made by {said}" in done.stderr


def test_report_of_a_newer_version_is_refused(tmp_path, run):
    report = tmp_path / "report.json"
    assert wavecheck("report", run, "-o", report).exit_code == 0
    newer = with_version(report, tmp_path / "newer.json", schema=2)
    done = wavecheck("report", newer, "-o", tmp_path / "x.md")
    assert done.exit_code == 2
    assert "made by a newer wavecheck" in done.stderr


@pytest.mark.parametrize("command", ["replay", "shrink", "report", "migrate"])
def test_failure_file_of_a_newer_version_is_refused(tmp_path, run, command):
    newer = with_version(failure_file(run), tmp_path / "f.json", format=FAILURE_FORMAT + 1)
    done = wavecheck(command, newer)
    assert done.exit_code == 2
    assert "has format 5, this version reads format 1 to 4; it was made by a newer" in done.stderr


# --- migration ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 3])
def test_older_failure_file_replays_as_it_is_and_as_it_is_migrated(tmp_path, run, number):
    old = as_format(failure_file(run), tmp_path / "f.json", number)
    before = wavecheck("replay", old)
    assert before.exit_code == 1
    assert "violated again, by the same events (digest equal)" in before.output
    assert wavecheck("migrate", "--check", old).exit_code == 1
    assert json.loads(old.read_text())["format"] == number
    done = wavecheck("migrate", old)
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"migrated from format {number} to 4" in done.output
    document, whole = json.loads(old.read_text()), json.loads(failure_file(run).read_text())
    lost = {key for since in [SINCE_2, SINCE_3, SINCE_4][number - 1 :] for key in since}
    assert {k: v for k, v in document.items() if k not in lost} == {
        k: v for k, v in whole.items() if k not in lost
    }
    assert wavecheck("replay", old).output == before.output
    assert wavecheck("migrate", "--check", old).exit_code == 0


def test_migration_leaves_current_files_alone_and_names_what_they_are(tmp_path, run):
    scenario, base = tmp_path / "x.yaml", tmp_path / "b.yaml"
    scenario.write_text(SCENARIO)
    base.write_text(BASELINE)
    given = [scenario, base, run, failure_file(run)]
    before = [path.read_bytes() for path in given]
    done = wavecheck("migrate", *given)
    assert done.exit_code == 0, done.output
    assert [path.read_bytes() for path in given] == before
    for name in ("scenario", "baseline", "run JSON", "failure file"):
        assert f": {name}, " in done.output
    assert "4 files: 4 current, 0 migrated" in done.output


def test_migration_refuses_what_is_not_ours_and_still_does_the_rest(tmp_path, run):
    old = as_format(failure_file(run), tmp_path / "f.json", 2)
    other, none = tmp_path / "other.json", tmp_path / "none.json"
    other.write_text("{}")
    done = wavecheck("migrate", other, none, tmp_path, old)
    assert done.exit_code == 2
    assert json.loads(old.read_text())["format"] == FAILURE_FORMAT
    assert "4 files: 0 current, 1 migrated, 3 refused" in done.output
