"""A journal writes into a file of its own, whatever has its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.journal import Journal, JournalBusyError


def begun(path: Path, **line: int) -> None:
    journal = Journal(path, fresh=False)
    journal.add(line)
    journal.close()


def test_journal_with_another_name_goes_on_in_a_copy(tmp_path: Path) -> None:
    path, other = tmp_path / "j", tmp_path / "other"
    begun(path, a=1)
    os.link(path, other)
    before = other.read_bytes()
    journal = Journal(path, fresh=False)
    assert journal.lines == [{"a": 1}]
    journal.add({"b": 2})
    with pytest.raises(JournalBusyError):
        Journal(path, fresh=False)
    journal.close()
    assert other.read_bytes() == before
    assert path.read_bytes() == before + b'{"b": 2}\n'
    assert sorted(os.listdir(tmp_path)) == ["j", "other"]


def test_journal_that_is_begun_anew_does_not_empty_its_other_name(tmp_path: Path) -> None:
    path, victim = tmp_path / "j", tmp_path / "victim"
    victim.write_text("precious")
    os.link(victim, path)
    Journal(path, fresh=True).close()
    assert (victim.read_text(), path.read_text()) == ("precious", "")


def test_journal_that_another_run_holds_is_busy_also_when_it_got_another_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j"
    held = Journal(path, fresh=False)
    os.link(path, tmp_path / "other")
    with pytest.raises(JournalBusyError):
        Journal(path, fresh=True)
    held.add({"a": 1})
    held.close()
    assert path.read_bytes() == b'{"a": 1}\n'


@pytest.mark.parametrize("fresh", [True, False])
def test_pipe_of_the_name_of_a_journal_is_replaced(tmp_path: Path, fresh: bool) -> None:
    path = tmp_path / "j"
    os.mkfifo(path)
    Journal(path, fresh=fresh).close()
    assert path.is_file()


def test_folder_of_the_name_of_a_journal_stays_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.mkdir()
    with pytest.raises(OSError, match="a folder has this name"):
        Journal(path, fresh=True)
    assert path.is_dir()
