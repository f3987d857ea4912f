"""Failures to be made small."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.replay import open_failure
from harness.runner import RunOptions, run_scenario
from harness.shrink.budget import Budget
from harness.shrink.reduction import reduce_failure, write_reduced
from tests.support.races import RACE, RACE_MUTANT
from tests.support.stories import load

Fail = Callable[..., Path]


@pytest.fixture
def fail(tmp_path: Path) -> Fail:
    """Run a story that is violated; return its failure file."""

    def run(story: str, name: str = "stories/bad", **options: object) -> Path:
        chosen = RunOptions(out=tmp_path / "out", **options)  # type: ignore[arg-type]
        result = run_scenario(load(story, name), chosen)
        assert result.status == "violated", result
        assert result.failure_file is not None
        return Path(result.failure_file)

    return run


def _copied(kept: Path, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(kept, folder))


@pytest.fixture(scope="session")
def found_race(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A failure that no schedule in FIFO order shows, under random choices, as it was found."""
    options = RunOptions(
        out=tmp_path_factory.mktemp("found"),
        mutant=RACE_MUTANT,
        schedules=60,
        strategy="random",
        seed=3,
    )
    result = run_scenario(load(RACE, "stories/bad"), options)
    assert result.failure_file is not None, result
    return Path(result.failure_file)


@pytest.fixture(scope="session")
def small_race(found_race: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with one departure, in a scenario of two calls."""
    reduced = reduce_failure(open_failure(found_race), Budget(3000))
    return write_reduced(reduced, tmp_path_factory.mktemp("small"))[1]


@pytest.fixture
def race(found_race: Path, tmp_path: Path) -> Path:
    """A copy of the failure as it was found."""
    return _copied(found_race, tmp_path / "found")


@pytest.fixture
def small(small_race: Path, tmp_path: Path) -> Path:
    """A copy of the small one."""
    return _copied(small_race, tmp_path / "small")
