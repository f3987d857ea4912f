"""Making golden vectors: one of each form, with the releases in which it is right."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from harness.capture import golden
from harness.capture.file import write
from harness.capture.vector_choice import choose
from harness.capture.vectors import load

NAMES = ("capture/03-leave", "capture/12-waves")


@pytest.fixture
def captures(capture_of):
    return [capture_of(release, *NAMES) for release in ("0.27.1", "0.28.0", "0.33.0")]


def test_one_message_of_each_form_is_picked_and_later_ones_are_counted(captures):
    found = {vector.name: vector for vector in choose(captures)}
    abort = found["abort-0.27.1"]
    assert abort.seen_in == ("0.27.1", "0.28.0", "0.33.0")
    assert (abort.releases[0], abort.releases[-1]) == ("0.22.0", "0.33.0")
    adds = [v for v in found.values() if v.kind == "add"]
    spans = {(v.releases[0], v.releases[-1]) for v in adds}
    assert spans == {("0.22.0", "0.27.1"), ("0.28.0", "0.30.0"), ("0.31.0", "0.33.0")}


def test_a_vector_that_is_there_keeps_its_bytes_and_one_that_is_wrong_goes(captures):
    first = choose(captures[:1])
    other = choose(captures[1:], first)
    kept = {vector.name: vector for vector in other}
    assert kept["abort-0.27.1"].frames == first[0].frames
    assert kept["abort-0.27.1"].seen_in == ("0.28.0", "0.33.0")
    assert "add-gone-0.27.1" not in kept
    wrong = [replace(v, value={"message": "Other"}) for v in first]
    assert "abort-0.27.1" not in {v.name for v in choose(captures[1:], wrong)}


def test_the_command_writes_files_that_are_read_again_and_says_when_they_are_stale(
    captures, tmp_path
):
    paths = []
    for number, capture in enumerate(captures):
        text = io.StringIO()
        write(capture, text)
        paths.append(tmp_path / f"{number}.capture")
        paths[-1].write_text(text.getvalue(), encoding="utf-8")
    into = tmp_path / "golden"
    arguments = [*map(str, paths), "--into", str(into)]
    assert CliRunner().invoke(golden.main, [*arguments, "--check"]).exit_code == 1
    assert not into.exists()
    assert CliRunner().invoke(golden.main, arguments).exit_code == 0
    assert CliRunner().invoke(golden.main, [*arguments, "--check"]).exit_code == 0
    expected = choose(captures)
    assert sorted(load(into), key=lambda v: v.name) == sorted(expected, key=lambda v: v.name)
    document = json.loads((into / "abort.json").read_text(encoding="utf-8"))
    assert document["wavecheck_golden"] == 1
    (into / "stale.json").write_text('{"wavecheck_golden": 1, "vectors": []}', encoding="utf-8")
    done = CliRunner().invoke(golden.main, arguments)
    assert f"changed: {into / 'stale.json'}" in done.stdout
    assert not (into / "stale.json").exists()


def test_a_file_that_is_no_capture_is_wrong_use(tmp_path):
    (tmp_path / "x").write_text("nothing")
    done = CliRunner().invoke(golden.main, [str(tmp_path / "x"), "--into", str(tmp_path / "g")])
    assert done.exit_code == 2
    assert "line 1" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Expecting property name"),
        ('{"wavecheck_golden": 2, "vectors": []}', "no golden vectors of format 1"),
        ('{"wavecheck_golden": 1, "wavecheck_golden": 1}', "stands twice"),
        (f'{{"wavecheck_golden": {"1" * 5_000}}}', "more than 4,300 digits"),
        ('{"wavecheck_golden": 1, "vectors": [{"first_release": "9"}]}', "'first_release' is '9'"),
        ('{"wavecheck_golden": 1, "vectors": [7]}', "expected an object, found 7"),
        ("[]", "expected an object"),
    ],
)
def test_file_that_holds_no_vectors_is_named(text, words, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        load(tmp_path)
    assert str(tmp_path / "bad.json") in str(caught.value)
