"""Files are replaced whole, devices and pipes written to, and a failure names the file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from harness.files import replacing, write_own, write_text


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


# --- names that are ours -----------------------------------------------------------------------


def linked(path: Path, victim: Path) -> None:
    victim.write_text("precious")
    os.link(victim, path)


@pytest.mark.parametrize("name", ["f", "f.partial"])
def test_hard_link_of_a_name_of_ours_is_replaced_and_its_other_name_stays(
    tmp_path: Path, name: str
) -> None:
    victim = tmp_path / "victim"
    linked(tmp_path / name, victim)
    write_own(tmp_path / "f", "text")
    assert (victim.read_text(), (tmp_path / "f").read_text()) == ("precious", "text")
    assert sorted(os.listdir(tmp_path)) == ["f", "victim"]


@pytest.mark.parametrize("name", ["f", "f.partial"])
def test_pipe_of_a_name_of_ours_is_replaced_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    write_own(tmp_path / "f", "text")
    assert (tmp_path / "f").read_text() == "text"
    assert os.listdir(tmp_path) == ["f"]


def test_partial_file_beside_a_file_that_a_person_names_is_made_anew(tmp_path: Path) -> None:
    linked(tmp_path / "f.partial", tmp_path / "victim")
    write_text(tmp_path / "f", "text")
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("f", "a folder has this name; remove or rename it"),
        ("f.partial", "f.partial beside it is a folder; remove or rename that"),
    ],
)
def test_folder_of_a_name_of_ours_stays_and_is_said(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "kept").touch()
    for write in (write_own, write_text):
        with pytest.raises(OSError, match=why) as failed:
            write(tmp_path / "f", "text")
        assert str(failed.value) == f"{tmp_path / 'f'}: {why}"
    assert (tmp_path / name / "kept").exists()
    assert os.listdir(tmp_path) == [name]
