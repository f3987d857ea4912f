"""What a report is made from: results, matrices, failure files, folders; and what is none."""

from __future__ import annotations

import json

import pytest

from harness.cli.catalogue import invariant_doc
from harness.reports.inputs.failures import Tracing
from harness.reports.inputs.files import InputError, read
from harness.reports.inputs.report import make_report
from tests.support.failures import as_recorded, failing_crowd, failing_run, failure_file


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return failing_run(tmp_path_factory.mktemp("run"))


def report_on(path, **tracing):
    return make_report(path, invariant_doc, Tracing(**tracing)).report


def test_run_is_told_with_the_words_of_the_terminal(run):
    report = report_on(run)
    (violation,) = report.violations
    assert (report.form, report.exit, report.counts) == ("run", 1, {"violated": 1})
    assert report.verdict == "0 held, 1 violated, 0 not judged, 0 error; exit 1: violated"
    assert violation.code == "wave.never-rewinds"
    assert violation.message == "the coordinator went from wave 2 back to 1"
    assert (violation.expected, violation.seen[:20]) == (
        "current wave >= 2",
        "current wave == 1 at",
    )
    assert violation.replay == f"wavecheck replay {failure_file(run)}"
    assert violation.trace.origin == "replayed"
    assert violation.witness
    assert report.results[0].violation == 0


def test_failure_file_alone_says_the_same_as_the_run(run):
    of_run, alone = report_on(run).violations[0], report_on(failure_file(run)).violations[0]
    for name in ("code", "message", "expected", "seen", "statement", "why", "witness", "trace"):
        assert getattr(alone, name) == getattr(of_run, name), name


def test_failed_expectation_is_told_with_its_step(tmp_path):
    (violation,) = report_on(failing_crowd(tmp_path, callers=2, random=False)).violations
    assert violation.code == "expectation"
    assert violation.statement == ('step 4: {"expect": {"count": {"event": "add", "equals": 1}}}')
    assert (violation.expected, violation.seen) == ("exactly 1 × add", "3 × add")


def test_folder_with_a_run_is_that_run_and_one_without_is_its_failure_files(run, tmp_path):
    assert report_on(run.parent).form == "run"
    as_recorded(failure_file(run), tmp_path / "a.json")
    (tmp_path / "failures").mkdir()
    as_recorded(failure_file(run), tmp_path / "failures" / "b.json")
    (tmp_path / "last-failed.json").write_text('{"failed": []}')
    report = report_on(tmp_path)
    assert (report.form, len(report.violations), report.notes) == ("failures", 2, [])
    assert report.headline == "2 failure files"


def test_torn_failure_file_in_a_folder_is_named_and_the_others_are_told(run, tmp_path):
    whole = as_recorded(failure_file(run), tmp_path / "whole.json").read_text()
    (tmp_path / "torn.json").write_text(whole[: len(whole) // 2])
    report = report_on(tmp_path)
    assert len(report.violations) == 1
    assert len(report.notes) == 1
    assert "torn.json: is not JSON" in report.notes[0]


def test_failure_file_that_was_moved_with_its_run_is_found(run, tmp_path):
    (tmp_path / "run.json").write_text(run.read_text())
    named = failure_file(run)
    (tmp_path / named.name).write_text(named.read_text())
    document = json.loads(run.read_text())
    document["results"][0]["failure_file"] = f"elsewhere/{named.name}"
    (tmp_path / "run.json").write_text(json.dumps(document))
    assert report_on(tmp_path / "run.json").violations[0].trace is not None


def test_failure_file_that_is_gone_is_said_and_the_rest_is_told(run, tmp_path):
    document = json.loads(run.read_text())
    document["results"][0]["failure_file"] = "gone/f.json"
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    (violation,) = report_on(path).violations
    assert violation.trace is None
    assert violation.trace_missing == "its failure file is not there: gone/f.json"
    assert violation.message == "the coordinator went from wave 2 back to 1"


def test_report_has_room_for_so_many_events_and_says_which_have_none(run, tmp_path):
    for name in "ab":
        as_recorded(failure_file(run), tmp_path / f"{name}.json")
    first, second = report_on(tmp_path, _room=50).violations
    assert first.trace is not None
    assert second.trace is None
    assert "events already" in second.trace_missing


def test_events_that_nobody_wants_are_not_got(run):
    (violation,) = report_on(run, wanted=False).violations
    assert (violation.trace, violation.trace_missing) == (None, "")
    assert violation.evidence


def test_document_of_an_older_version_is_read_without_what_came_later(run, tmp_path):
    document = json.loads(run.read_text())
    for key in ("allow_known", "strict"):
        del document[key]
    for key in ("departures", "repeats", "explored", "exhausted"):
        del document["results"][0][key]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    assert report_on(path).violations[0].order is None


BAD = {
    "missing": (None, "does not exist"),
    "empty": ("", "ends in the middle of its JSON"),
    "torn": ('{"schema": 1, "results": [', "ends in the middle of its JSON"),
    "key twice": ('{"schema": 1, "schema": 1}', "key 'schema' stands twice"),
    "long number": (f'{{"schema": {"1" * 5_000}}}', "has more than 4,300 digits"),
    "no JSON": ("title: x\n", ":1:1: is not JSON"),
    "list": ("[]", "a list at the top"),
    "foreign": ('{"failed": []}', "neither the results of a run or a matrix nor a failure file"),
    "other schema": (
        '{"schema": 2, "results": [], "target": {}, "summary": {}, "tool": {"version": "9"}}',
        "has schema 2, this version reads schema 1",
    ),
    "other format": ('{"format": 99, "scenario_text": ""}', "has format 99"),
    "lacks a key": (
        '{"schema": 1, "results": [{"scenario": "x"}], "target": {"kind": "sim", "version": "",'
        ' "capabilities": []}, "summary": {}, "tool": {"version": "1"}, "not_run": []}',
        "missing required field `title` - at `$.results[0]`",
    ),
    "wrong exit code": (
        '{"schema": 1, "results": [], "target": {"kind": "sim", "version": "", "capabilities": []},'
        ' "summary": {"held": 0, "violated": 0, "known": 0, "not_judged": 0, "error": 0,'
        ' "exit": 77}, "tool": {"version": "1"}, "not_run": []}',
        "77 is not a valid ExitCode",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_says_where_what_and_what_to_do(name, tmp_path):
    text, expected = BAD[name]
    path = tmp_path / "given.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        report_on(path)
    assert expected in caught.value.title
    assert str(path) in caught.value.title
    assert caught.value.help


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "given.json"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match="is not JSON"):
        read(path)


def test_folder_with_nothing_to_tell_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds neither matrix.json nor run.json nor a failure"):
        read(tmp_path)


def test_pipe_is_refused_without_waiting_for_it(tmp_path):
    import os

    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match="is not a regular file"):
        read(path)
