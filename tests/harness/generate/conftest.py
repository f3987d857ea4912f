"""A stage on the simulation, and what its target can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.generate.drafts import Can
from harness.generate.trial import Stage
from harness.runner import RunOptions
from harness.targets.capabilities import CAPABILITIES


@pytest.fixture
def sim() -> Stage:
    return Stage(RunOptions(schedules=3, strategy="auto"))


@pytest.fixture(scope="session")
def everything() -> Can:
    """A target that can do whatever any target can."""
    return Can(frozenset(CAPABILITIES))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder
