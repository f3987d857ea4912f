"""Files are replaced whole, devices and pipes written to, and a failure names the file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from harness.files import replacing, write_text


def test_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for text in ("one", "two \udc80"):
        write_text(path, text)
    assert path.read_bytes() == b"two \\udc80"
    assert list(tmp_path.iterdir()) == [path]


def test_file_that_fails_keeps_what_was_there_and_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("before")

    def write() -> None:
        with replacing(path) as place:
            place.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left on device") as failed:
        write()
    assert failed.value.filename == str(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    write_text(link, "text")
    assert (link.is_symlink(), target.read_text()) == (True, "text")


def test_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_text, args=(pipe, "text"))
    writer.start()
    assert pipe.read_text() == "text"
    writer.join()
    assert pipe.is_fifo()
