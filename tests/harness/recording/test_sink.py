"""The file that grows: whole, and cut off anywhere."""

from __future__ import annotations

import asyncio
from io import StringIO

import pytest

from harness.capture.file import CaptureFileError, read, read_file
from harness.capture.recording import FROM_ENGINE, INPUT, TO_ENGINE
from harness.capture.sources import messages_of
from harness.recording.release import ReleaseGuess
from harness.recording.sink import Sink


def write(path, count, *, end=True, release="0.31.0"):
    async def main():
        sink = Sink(path, ReleaseGuess(release), notes=["a note"])
        for number in range(count):
            direction = TO_ENGINE if number % 2 else FROM_ENGINE
            sink.take(number % 3, INPUT, direction, [b"\x01", bytes([number])])
        if end:
            sink.close()
        return sink

    return asyncio.run(main())


def test_a_recording_is_a_capture(tmp_path):
    path = tmp_path / "f.jsonl"
    write(path, 4)
    capture = read_file(path)
    (story,) = capture.stories
    assert [frame.frames for frame in story.frames] == [(b"\x01", bytes([n])) for n in range(4)]
    assert [frame.engine for frame in story.frames] == [0, 1, 2, 0]
    assert (story.status, story.release, capture.notes) == ("played", "0.31.0", ("a note",))


def test_a_recording_is_readable_wherever_it_was_cut_off(tmp_path):
    path = tmp_path / "f.jsonl"
    write(path, 3)
    text = path.read_text()
    head = text.index("\n") + 1
    ends = [place for place, char in enumerate(text) if char == "\n"]
    for cut in range(head, len(text) + 1):
        capture = read(StringIO(text[:cut]))
        lines = sum(end < cut for end in ends)
        messages = max(0, min(3, lines - 2))
        assert sum(len(story.frames) for story in capture.stories) == messages, cut
        assert ("it has no end" in " ".join(capture.notes)) == (lines < len(ends))


def test_the_rest_of_the_file_is_still_checked(tmp_path):
    path = tmp_path / "f.jsonl"
    write(path, 3)
    lines = path.read_text().splitlines(keepends=True)
    with pytest.raises(CaptureFileError, match="line 4"):
        read(StringIO("".join([*lines[:3], lines[3][:20] + "\n", *lines[4:]])))


def test_a_file_that_was_not_written_live_is_still_refused_when_cut_off(tmp_path):
    path = tmp_path / "f.jsonl"
    write(path, 3)
    text = path.read_text().replace('"live":true,', "")
    with pytest.raises(CaptureFileError, match="cut off"):
        read(StringIO(text[: text.rindex('{"complete')]))


def test_messages_of_a_recorder_that_was_killed_can_be_decoded(tmp_path):
    path = tmp_path / "f.jsonl"
    write(path, 5, end=False)
    assert len(messages_of(path.read_bytes())) == 5


def test_a_file_that_is_there_is_never_written_over(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        write(path, 1)
    assert path.read_text() == "mine"


def test_a_release_that_was_told_later_stands_at_the_end(tmp_path):
    path = tmp_path / "f.jsonl"
    write(path, 2, release=None)
    assert read_file(path).stories[0].release == "0.33.0"
    assert '"release":""' in path.read_text().splitlines()[1]


@pytest.mark.skipif(not __import__("pathlib").Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_remembered_and_stops_nothing(tmp_path, monkeypatch):
    import os

    sink = write(tmp_path / "f.jsonl", 1, end=False)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, sink._file)
    os.close(full)

    async def more():
        sink.take(0, INPUT, TO_ENGINE, [b"x"])
        sink.take(0, INPUT, TO_ENGINE, [b"y"])

    asyncio.run(more())
    sink.close()
    assert "No space left" in str(sink.failure)
    assert str(tmp_path) in str(sink.failure.filename)
