"""Failure files: what is written is read back, and whatever else is refused with its reason."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.failure import (
    EVENTS_MAX,
    FIELDS,
    FILE_BYTES_MAX,
    FORMAT,
    OUT_DEFAULT,
    SINCE_2,
    SINCE_3,
    SINCE_4,
    FailureFile,
    FailureFileError,
    read_failure,
    write_failure,
)
from harness.runner import RunOptions
from harness.tape import Tape
from harness.version import tool_version
from tests.support.stories import load

TAPE = Tape(((0, 2), (2, 3)), (("a", "b"), ("c", "d", "e")))
FAILURE = FailureFile(
    scenario_id="waves/x",
    scenario_text="title: t\n# Umlaute: äöü\n",
    target="sim",
    frontend=None,
    profile="0.33.0",
    mutant="rank-truncated",
    violated="wave.never-rewinds",
    witness=[3, 17],
    digest="ab" * 32,
    tape=TAPE.to_json(),
    events=["#0 joined", "#1 add"],
)
REAL = dataclasses.replace(
    FAILURE,
    target="vllm-rs",
    frontend="0.24.0",
    mutant=None,
    digest="",
    tape=None,
    frontend_args=["--stream-interval", "2"],
    frontend_env=[["NAME", "value"]],
    attach="http://127.0.0.1:1",
    recording={"fields": [{"engine": 0}], "messages": []},
)


# --- writing --------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [FAILURE, REAL], ids=["sim", "real"])
def test_file_that_was_written_is_read_back_as_it_was(tmp_path, failure):
    path = write_failure(failure, tmp_path)
    assert read_failure(path) == failure
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_readable_and_says_who_wrote_it(tmp_path):
    path = write_failure(FAILURE, tmp_path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["format"], document["tool"]) == (FORMAT, tool_version())
    assert {*document} == {"format", "tool", *FIELDS}
    assert document["scenario_text"] == FAILURE.scenario_text


def test_failure_describes_the_attempt_and_its_options():
    loaded = load("steps:\n  - fence: true\n", "waves/x")
    failure = FailureFile.of(
        loaded=loaded,
        options=RunOptions(target="zmq", frontend="f", mutant="m", seed=3),
        profile="0.30.0",
        violated="expectation at step 0",
        witness=[1],
        attempt_digest="d",
        tape=TAPE,
        events=[f"event {n}" for n in range(EVENTS_MAX + 1)],
    )
    assert failure == FailureFile(
        scenario_id="waves/x",
        scenario_text=loaded.text,
        target="zmq",
        frontend="f",
        profile="0.30.0",
        mutant="m",
        violated="expectation at step 0",
        witness=[1],
        digest="d",
        tape=TAPE.to_json(),
        events=[f"event {n}" for n in range(EVENTS_MAX)],
    )


def test_folder_is_made_and_its_default_is_below_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_failure(FAILURE, None)
    assert path.parent == Path(OUT_DEFAULT)
    assert path.exists()
    assert write_failure(FAILURE, tmp_path / "a" / "b").parent == tmp_path / "a" / "b"


def test_file_of_format_1_is_read_without_arguments_of_the_frontend(tmp_path):
    path = tmp_path / "f.json"
    old = {name: value for name, value in document(format=1).items() if name not in SINCE_2}
    path.write_text(json.dumps(old))
    assert read_failure(path) == FAILURE


def test_file_of_format_2_is_read_without_departures(tmp_path):
    path = tmp_path / "f.json"
    old = {name: value for name, value in document(format=2).items() if name not in SINCE_3}
    path.write_text(json.dumps(old))
    assert read_failure(path) == FAILURE


@pytest.mark.parametrize("format_", [1, 2, 3])
def test_file_of_an_older_format_is_read_without_a_recording(tmp_path, format_):
    path = tmp_path / "f.json"
    old = {name: v for name, v in document(format=format_).items() if name not in SINCE_4}
    path.write_text(json.dumps(old))
    assert read_failure(path) == FAILURE


def test_departures_and_stalls_are_read_back(tmp_path):
    failure = dataclasses.replace(
        FAILURE, departures=["at choice 0 `b` ran before `a`"], stalls=[0]
    )
    assert read_failure(write_failure(failure, tmp_path)) == failure


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"departures": [1]}, "field 'departures' must be a list of lines of text"),
        ({"departures": "x"}, "field 'departures' has the wrong type str"),
        ({"stalls": ["1"]}, "field 'stalls' must be a list of numbers of choices"),
        ({"stalls": [True]}, "field 'stalls' must be a list of numbers of choices"),
        ({"stalls": 3}, "field 'stalls' has the wrong type int"),
    ],
)
def test_departures_of_another_type_are_refused(tmp_path, changes, text):
    assert refusal(tmp_path, document(**changes)) == text


@pytest.mark.parametrize("pairs", [[["NAME"]], [["NAME", 1]], [["a", "b", "c"]]])
def test_environment_that_is_no_list_of_pairs_is_refused(tmp_path, pairs):
    path = tmp_path / "f.json"
    path.write_text(json.dumps(document(frontend_env=pairs)))
    with pytest.raises(FailureFileError, match="pairs of a name and a value"):
        read_failure(path)


# --- its name -------------------------------------------------------------------------------


def test_name_tells_scenario_and_promise_and_is_the_same_for_the_same_failure(tmp_path):
    stem, _, mark = FAILURE.name.rpartition("-")
    assert stem == "waves-x.wave.never-rewinds"
    assert len(mark.removesuffix(".json")) == 8
    assert dataclasses.replace(FAILURE, events=[]).name == FAILURE.name
    first, second = write_failure(FAILURE, tmp_path), write_failure(FAILURE, tmp_path)
    assert (first, len(list(tmp_path.iterdir()))) == (second, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"scenario_id": "waves/y"}, {"violated": "wave.complete-advances-once"},
        {"digest": "ac" * 32}, {"profile": "0.32.0"}, {"mutant": None}, {"mutant": "x"},
        {"target": "zmq"}, {"frontend": "0.24.0"}, {"digest": ""},
    ],
)  # fmt: skip
def test_another_failure_has_another_name(other):
    assert dataclasses.replace(FAILURE, **other).name != FAILURE.name


def test_failures_of_a_real_target_are_told_apart_by_their_events():
    assert dataclasses.replace(REAL, events=["else"]).name != REAL.name


@given(st.text(max_size=400), st.text(max_size=400))
def test_name_never_leaves_its_folder_and_fits_any_system(scenario_id, violated):
    name = dataclasses.replace(FAILURE, scenario_id=scenario_id, violated=violated).name
    assert Path(name).name == name
    assert not name.startswith(".")
    assert name.isascii()
    assert len(name) <= 255 - len(".partial")
    assert name.endswith(".json")


@pytest.mark.parametrize(
    "scenario_id",
    ["../../escape", "/etc/passwd", "..", "a/../../b", "C:\\x", "nul\0", "…/…", "x" * 4000, ""],
)
def test_file_stays_in_its_folder_whatever_the_scenario_is_called(tmp_path, scenario_id):
    out = tmp_path / "deep" / "out"
    path = write_failure(dataclasses.replace(FAILURE, scenario_id=scenario_id), out)
    assert path.resolve().parent == out.resolve()
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]
    assert read_failure(path).scenario_id == scenario_id


def test_interrupted_write_leaves_no_broken_file(tmp_path, monkeypatch):
    def fail(self, target):
        msg = "the disk is full"
        raise OSError(msg)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="the disk is full"):
        write_failure(FAILURE, tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- refusals -------------------------------------------------------------------------------


def document(**changes):
    plain = {"format": FORMAT, "tool": "9.9.9", **dataclasses.asdict(FAILURE)}
    return {**plain, **changes}


def refusal(tmp_path, content):
    path = tmp_path / "f.json"
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(raw)
    with pytest.raises(FailureFileError) as caught:
        read_failure(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_document_itself_is_accepted(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(json.dumps(document()))
    assert read_failure(path) == FAILURE


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is not JSON (Expecting value: line 1 column 1 (char 0)); replay takes the file "),
        (b"title: t\n", "is not JSON ("),
        (b"\xff\xfe", "is not JSON ("),
        (b"{", "is not JSON ("),
        (b"[" * 100_000, "is not JSON ("),
        (b'{"format": 1' + b"0" * 5000 + b"}", "is not JSON ("),
        ([], "is no failure file (no 'format')"),
        (None, "is no failure file (no 'format')"),
        ("x", "is no failure file (no 'format')"),
        ({}, "is no failure file (no 'format')"),
        ({"schema": 1, "results": []}, "is no failure file (no 'format')"),
        (document(format=5), "has format 5, this version reads format 1 to 4; it was made by a "
         "newer wavecheck (9.9.9)"),
        ({"format": 0}, "has format 0, this version reads format 1 to 4; it was made by an older "
         "wavecheck, and is out of the support window"),
        (document(format="1"), "has format '1', this version reads"),
        (document(format=True), "has format True, this version reads"),
        (document(format=1.0), "has format 1.0, this version reads"),
        (document(format=None), "has format None, this version reads"),
        (document(mutan="x"), "has the unknown field 'mutan'"),
        (document(witness=[1, "2"]), "field 'witness' must be a list of trace numbers"),
        (document(witness=[True]), "field 'witness' must be a list of trace numbers"),
        (document(witness=[1.0]), "field 'witness' must be a list of trace numbers"),
        (document(events=[1]), "field 'events' must be a list of lines of text"),
    ],
)  # fmt: skip
def test_file_that_is_something_else_is_refused_with_the_reason(tmp_path, content, text):
    assert refusal(tmp_path, content).startswith(text)


@pytest.mark.parametrize("name", FIELDS)
def test_missing_field_is_refused_by_name(tmp_path, name):
    incomplete = document()
    del incomplete[name]
    assert refusal(tmp_path, incomplete) == f"lacks the field {name!r}"


WRONG = {
    "dict": {},
    "list": [],
    "str": "x",
    "int": 1,
    "float": 0.5,
    "bool": False,
    "NoneType": None,
}
RIGHT = {name: {kind.__name__ for kind in kinds} for name, kinds in FIELDS.items()}  # of each field


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in FIELDS for kind in WRONG if kind not in RIGHT[name]],
)
def test_field_of_a_wrong_type_is_refused_by_name(tmp_path, name, kind):
    text = refusal(tmp_path, document(**{name: WRONG[kind]}))
    assert text == f"field {name!r} has the wrong type {kind}"


def test_fields_of_the_file_are_those_of_the_class():
    assert list(FIELDS) == [field.name for field in dataclasses.fields(FailureFile)]


def test_large_file_is_refused_unread(tmp_path):
    path = tmp_path / "f.json"
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(FailureFileError, match=r"larger than 16 MiB; this is no failure file$"):
        read_failure(path)


def test_file_that_cannot_be_read_is_refused_with_the_systems_reason(tmp_path):
    with pytest.raises(FailureFileError, match=": cannot be read: No such file"):
        read_failure(tmp_path / "none.json")


def test_folder_is_refused_with_what_is_taken(tmp_path):
    with pytest.raises(FailureFileError, match=": is a folder; replay takes the file that"):
        read_failure(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_file_without_permission_is_refused(tmp_path):
    path = write_failure(FAILURE, tmp_path)
    path.chmod(0)
    with pytest.raises(FailureFileError, match=r"cannot be read: Permission denied"):
        read_failure(path)


# --- a little fuzz --------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def read_or_refuse(path: Path) -> FailureFile | None:
    try:
        return read_failure(path)
    except FailureFileError as error:
        text = str(error)
    assert text.startswith(f"{path}: ")
    return None


@settings(max_examples=60)
@given(st.sampled_from(["format", "tool", *FIELDS, "new"]), JSON)
def test_any_value_in_any_field_is_read_or_refused(tmp_path_factory, name, value):
    path = tmp_path_factory.getbasetemp() / "fuzz-field.json"
    path.write_text(json.dumps(document(**{name: value})))
    found = read_or_refuse(path)
    if name in FIELDS and found is not None:
        assert json.dumps(getattr(found, name)) == json.dumps(value)


@settings(max_examples=60)
@given(st.data())
def test_any_damage_to_the_bytes_is_read_or_refused(tmp_path_factory, data):
    raw = bytearray(json.dumps(document()).encode())
    start = data.draw(st.integers(0, len(raw) - 1))
    end = data.draw(st.integers(start, min(len(raw), start + 40)))
    raw[start:end] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.getbasetemp() / "fuzz-bytes.json"
    path.write_bytes(raw)
    read_or_refuse(path)


# --- what is no file ------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_pipe_is_refused_instead_of_waited_for(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(FailureFileError, match=": is not a regular file; replay takes"):
        read_failure(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_endless_device_is_refused_unread():
    with pytest.raises(FailureFileError, match=r"^/dev/zero: is not a regular file"):
        read_failure(Path("/dev/zero"))
