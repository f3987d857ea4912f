"""What can be decoded: hex lines, raw bytes, captures and golden vectors."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from harness.capture.file import write
from harness.capture.sources import SourceError, messages_of

GOLDEN = Path(__file__).parents[3] / "golden"


def test_lines_of_hexadecimal_frames_are_messages_each():
    text = b"# two messages\n02 920000\n\n00,ff, -  # one more\ntext:READY\n"
    found = messages_of(text)
    assert [m.frames for m in found] == [
        (b"\x02", b"\x92\x00\x00"),
        (b"\x00", b"\xff", b""),
        (b"READY",),
    ]
    assert [m.title for m in found] == ["line 2", "line 4", "line 5"]


def test_other_bytes_are_one_frame_and_so_is_text_where_it_is_asked_for():
    assert [m.frames for m in messages_of(b"\x93\x00\x90\xc0")] == [(b"\x93\x00\x90\xc0",)]
    assert [m.frames for m in messages_of(b"READY", binary=True)] == [(b"READY",)]


def test_messages_of_a_capture_carry_kind_and_release(capture_of):
    text = io.StringIO()
    write(capture_of("0.31.0", "capture/03-leave"), text)
    found = messages_of(text.getvalue().encode())
    assert (found[0].kind.name, found[0].release) == ("hello", "0.31.0")
    assert found[0].title == "capture/03-leave #0, engine 0, handshake"


def test_golden_vectors_are_messages():
    found = messages_of((GOLDEN / "abort.json").read_bytes())
    assert [(m.title, m.kind.name) for m in found] == [("vector abort-0.22.0", "abort")]


def golden(**vector):
    return json.dumps({"wavecheck_golden": 1, "vectors": [vector]}).encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"# nothing\n", "there is no message in it"),
        (b"02 920000\n0g\n", "line 2: frame '0g' is neither hexadecimal nor"),
        (b"{", "begins like JSON and is none"),
        (b'{"a": 1}', "neither a capture nor"),
        (b'{"a": ' + b"[" * 200_000, "nest too deep"),
        (b'{"wavecheck_golden": 2, "vectors": []}', "format 2; this version reads format 1"),
        (b'{"wavecheck_golden": 1}', "'vectors' is missing; expected a list"),
        (b'{"wavecheck_golden": 1, "vectors": {}}', "'vectors' is {}; expected a list"),
        (b'{"wavecheck_golden": 1, "vectors": []}', "there is no vector in it"),
        (golden(), "vector 1: 'name' is missing; expected a text"),
        (golden(name=None), "vector 1: 'name' is null; expected a text"),
        (b'{"wavecheck_golden": 1, "vectors": [7]}', "vector 1: expected an object, found 7"),
        (golden(name="a", kind="addd"), "vector 1 (a): 'kind' is 'addd'; expected"),
        (golden(name="a", kind="addd"), "did you mean 'add'"),
        (golden(name="a", kind="add", frames="00"), "(a): 'frames' is '00'; expected a list"),
        (golden(name="a", kind="add", frames=[7]), "entry 1 of 'frames' is 7; expected a text"),
        (golden(name="a", kind="add", frames=["00", "0g"]), "frame 2 is '0g'; expected an even"),
        (b'{"wavecheck_capture": 1}\n', "line 1: 'tool' is missing; expected a text"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(content, words):
    with pytest.raises(SourceError) as caught:
        messages_of(content)
    assert words in str(caught.value)
