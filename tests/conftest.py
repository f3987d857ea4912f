"""What all tests share: the seed of those that try a sample of many rows."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

# Not in the project's configuration: `pytest scenarios/` has to work without pytest-timeout.
os.environ.setdefault("PYTEST_TIMEOUT", "180")

collect_ignore_glob = ["**/*.yaml"]
"""Scenarios below this folder are played by the tests that they belong to."""
ROWS_SEED = "WAVECHECK_ROWS_SEED"
"""Variable that repeats the sample of an earlier run: its value is printed at the head."""


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed once: worker processes inherit it, also over midnight."""
    del config
    os.environ.setdefault(ROWS_SEED, datetime.now(UTC).date().isoformat())
    # In a job of GitHub commands add lines to their output; tests ask for these by themselves.
    os.environ.pop("GITHUB_ACTIONS", None)


def pytest_report_header(config: pytest.Config) -> str:
    """Say it, so that a red run can be repeated on another day."""
    del config
    return f"{ROWS_SEED}={rows_seed()}"


def rows_seed() -> str:
    """Which rows are tried today."""
    return os.environ[ROWS_SEED]
