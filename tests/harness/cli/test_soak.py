"""`wavecheck soak`: files that `run` plays, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke


def test_soak_writes_stories_that_run_plays(invoke: Invoke, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "soak"
    wrote = invoke("soak", str(folder), "--seeds", "2", "--first", "7", "--requests", "30")
    assert wrote.exit_code == 0
    assert f"wavecheck run {folder}" in wrote.output
    assert sorted(path.name for path in folder.iterdir()) == ["soak-0007.yaml", "soak-0008.yaml"]
    played = invoke("run", str(folder))
    assert played.exit_code == 0
    assert "2 held" in played.output


def test_folder_that_cannot_be_written_is_bad_input(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    wrote = invoke("soak", str(tmp_path / "file"))
    assert wrote.exit_code == 2
    assert "file" in wrote.output
