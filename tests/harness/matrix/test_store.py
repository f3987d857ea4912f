"""Finished cells outlive a crash, and only whole ones do."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.matrix.model import Cell
from harness.matrix.store import CellStore, StoreBusyError
from tests.harness.matrix.conftest import cell

ONE = cell("0.24.0", "known", trials=3, race=True, failure_file="failures/f.json")
TWO = cell("0.25.0", "held")


def filled(path: Path) -> None:
    store = CellStore(path, fresh=True)
    store.put("one", ONE)
    store.put("two", TWO)
    store.close()


def read(path: Path) -> tuple[CellStore, Cell | None, Cell | None]:
    store = CellStore(path, fresh=False)
    store.close()
    return store, store.get("one"), store.get("two")


def test_cells_come_back_as_they_were(tmp_path: Path) -> None:
    filled(tmp_path / "cells.jsonl")
    store, one, two = read(tmp_path / "cells.jsonl")
    assert (one, two, store.unreadable) == (ONE, TWO, 0)
    assert store.get("three") is None


def test_later_line_of_a_key_counts(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    filled(path)
    store = CellStore(path, fresh=False)
    store.put("one", TWO)
    store.close()
    assert read(path)[1] == TWO
    assert len(path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize("keep", [1, 40])
def test_line_that_was_cut_off_is_passed_over_and_the_next_one_is_whole(
    tmp_path: Path, keep: int
) -> None:
    path = tmp_path / "cells.jsonl"
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:keep])
    store = CellStore(path, fresh=False)
    assert (store.get("one"), store.get("two"), store.unreadable) == (ONE, None, 1)
    store.put("two", TWO)
    store.close()
    assert read(path)[1:] == (ONE, TWO)


@pytest.mark.parametrize(
    "line",
    [b"null", b"[]", b'{"key": "one"}', b'{"key": "one", "cell": {"status": "held"}}',
     b'{"key": "one", "cell": {"scenario": "a", "frontend": "b", "status": "fine"}}',
     b"\xff\xfe"],
)  # fmt: skip
def test_line_that_holds_no_cell_is_counted(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_bytes(line + b"\n")
    store, one, _ = read(path)
    assert (one, store.unreadable) == (None, 1)


def test_fresh_store_forgets_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    filled(path)
    CellStore(path, fresh=True).close()
    assert read(path)[1:] == (None, None)
    assert path.read_bytes() == b""


def test_second_run_in_the_same_folder_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    filled(path)
    first = CellStore(path, fresh=False)
    with pytest.raises(StoreBusyError):
        CellStore(path, fresh=True)
    first.close()
    assert read(path)[1:] == (ONE, TWO)
