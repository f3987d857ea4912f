"""Only regular files are read, and no more of them than may be; nothing is waited for."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.reading import (
    NotRegularError,
    TooLargeError,
    open_regular,
    read_bounded,
    read_regular,
    regular_descriptor,
)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        # The path may be too long for a socket.
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


THINGS: dict[str, Callable[[Path], None]] = {
    "it is a pipe": lambda path: os.mkfifo(path),
    "it is a device": lambda path: path.symlink_to("/dev/zero"),
    "it is a socket": a_socket,
    "Is a directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("what", THINGS)
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path, what: str) -> None:
    path = tmp_path / "thing"
    THINGS[what](path)
    with pytest.raises(NotRegularError, match=what) as failed:
        read_regular(path, 10)
    assert failed.value.filename == str(path)


def test_file_that_becomes_a_pipe_before_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular, path = tmp_path / "regular", tmp_path / "pipe"
    regular.write_text("x")
    os.mkfifo(path)
    seen = os.stat(regular)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else None
    with monkeypatch.context() as changed:
        changed.setattr(os, "stat", lambda *_args, **_more: seen)
        with pytest.raises(NotRegularError, match="it is a pipe"):
            regular_descriptor(path)
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("size", "taken"), [(9, True), (10, True), (11, False)])
def test_bound_holds_for_files_and_streams_alike(tmp_path: Path, size: int, taken: bool) -> None:
    path, content = tmp_path / "file", b"x" * size
    path.write_bytes(content)
    reads = (lambda: read_regular(path, 10), lambda: read_bounded(io.BytesIO(content), 10, "-"))
    for read in reads:
        if taken:
            assert read() == content
        else:
            with pytest.raises(TooLargeError, match="larger than 10 bytes"):
                read()


def test_file_far_above_the_bound_is_refused_without_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(20 << 30)
    monkeypatch.setattr("harness.reading.read_bounded", None)
    with pytest.raises(TooLargeError, match="larger than 16 MiB"):
        read_regular(path, 16 << 20)


def test_stream_without_an_end_is_left_at_the_bound(tmp_path: Path) -> None:
    with open("/dev/zero", "rb") as zeros, pytest.raises(TooLargeError):
        read_bounded(zeros, 1_000, "zeros")
    assert not list(tmp_path.iterdir())


def test_link_to_a_regular_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"text"
