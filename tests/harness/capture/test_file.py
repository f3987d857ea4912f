"""A capture as a file: the round trip, and files that are none."""

from __future__ import annotations

import io
import json

import pytest

from harness.capture.file import (
    UNKNOWN_ENGINE,
    CaptureFileError,
    is_capture,
    read,
    read_file,
    write,
)

STORIES = ("capture/03-leave", "capture/14-admin-answers")


@pytest.fixture
def lines(capture_of):
    text = io.StringIO()
    write(capture_of("0.33.0", *STORIES), text)
    return text.getvalue().splitlines()


def test_a_capture_is_read_as_it_was_written(capture_of, lines, tmp_path):
    path = tmp_path / "one.capture"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read_file(path) == capture_of("0.33.0", *STORIES)
    assert is_capture(lines[0])
    assert not is_capture(lines[1])
    assert not is_capture("02 920000")


def without(key):
    def change(lines):
        place = next(i for i, line in enumerate(lines) if key in json.loads(line))
        return lines[:place] + lines[place + 1 :]

    return change


def changed(key, **values):
    def change(lines):
        place = next(i for i, line in enumerate(lines) if key in json.loads(line))
        lines = list(lines)
        lines[place] = json.dumps({**json.loads(lines[place]), **values})
        return lines

    return change


def raw(old, new):
    """Change the first message as text, into what no writer of JSON writes."""

    def change(lines):
        line = json.dumps(json.loads(lines[2]))
        assert old in line
        return [*lines[:2], line.replace(old, new), *lines[3:]]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [], "it is empty"),
        (lambda lines: lines[:-1], "it was cut off"),
        (lambda lines: lines[:-20], "it was cut off"),
        (lambda lines: [*lines, lines[0]], "behind the end"),
        (lambda lines: lines[1:], "line 1: this is no capture"),
        (lambda lines: [*lines[:3], "{", *lines[3:]], "line 4, column 1: no JSON: "),
        (lambda lines: [*lines[:3], "[]", *lines[3:]], "line 4: not an object"),
        (lambda lines: [lines[0], *lines[2:]], "line 2: belongs to no story"),
        (lambda lines: [*lines[:3], lines[1], *lines[3:]], "has no end"),
        (without("socket"), "is not whole"),
        (without("event"), "is not whole"),
        (changed("complete", stories=3), "the file is not whole"),
        (changed("socket", n=True), "line 3: 'n' is true; expected a whole number"),
        (changed("wavecheck_capture", notes=[1]), "line 1: entry 1 of 'notes' is 1"),
        (changed("complete", stories="one"), "'stories' is 'one'; expected a whole number"),
        (changed("wavecheck_capture", wavecheck_capture=2), "this version reads format 1"),
        (changed("socket", socket="door"), "line 3: 'socket' is 'door'; expected"),
        (changed("socket", frames=["0"]), "line 3: frame 1 is '0'; expected an even"),
        (changed("story", status="odd"), "line 2: 'status' is 'odd'; expected"),
        (changed("socket", n=-5), "line 3: 'n' is -5; expected a whole number from 0 to"),
        (changed("socket", time_us=-1), "line 3: 'time_us' is -1; expected a whole number from 0"),
        (changed("socket", engine=-3), "line 3: 'engine' is -3; expected a whole number from -1"),
        (changed("socket", engine=65_536), "'engine' is 65536; expected a whole number from -1"),
        (raw('"n": 0', f'"n": {"1" * 5_000}'), "line 3: no JSON of a capture: a whole number has"),
        (raw('"n": 0', '"n": 0, "n": 1'), "line 3: no JSON of a capture: key 'n' stands twice"),
        (raw('"n": 0', '"n": NaN'), "line 3: no JSON of a capture: NaN is no JSON number"),
        (changed("event", fields=None), "'fields' is null; expected an object"),
    ],
)
def test_a_file_that_is_not_whole_or_not_one_of_ours_is_refused(lines, change, words):
    with pytest.raises(CaptureFileError) as caught:
        read(io.StringIO("\n".join(change(lines))))
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(CaptureFileError, match=r"cannot read .*absent"):
        read_file(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\n")
    with pytest.raises(CaptureFileError, match="binary is no capture: it is not UTF-8"):
        read_file(tmp_path / "binary")


def test_message_of_an_unknown_engine_is_read(lines):
    read_back = read(io.StringIO("\n".join(changed("socket", engine=UNKNOWN_ENGINE)(lines))))
    assert read_back.stories[0].frames[0].engine == UNKNOWN_ENGINE


def test_error_about_a_long_text_is_not_as_long(lines):
    with pytest.raises(CaptureFileError) as caught:
        read(
            io.StringIO(
                "\n".join(
                    changed("end", end="x", frames=0)(changed("story", story="y" * 100_000)(lines))
                )
            )
        )
    assert len(str(caught.value)) < 3_000
