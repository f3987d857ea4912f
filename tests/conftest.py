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
LONG = (
    "tests/chaos/",
    "tests/flakes/",
    "tests/harness/cli/test_dask.py",
    "tests/harness/cli/test_explore_resume.py",
    "tests/harness/cli/test_interrupt.py",
    "tests/harness/cli/test_pool.py",
    "tests/harness/cli/test_streams.py",
    "tests/harness/cli/test_watch.py",
    "tests/harness/pytest_plugin/test_processes.py",
    "tests/harness/recording/test_record_command.py",
    "tests/harness/shrink/test_determinism.py",
    "tests/harness/shrink/test_mutants.py",
    "tests/harness/targets/vllm_rs/test_wheel.py",
    "tests/meta/test_action.py",
    "tests/meta/test_determinism.py",
    "tests/meta/test_new_release.py",
    "tests/meta/test_site.py",
    "tests/mutation/",
    "tests/security/",
    "tests/tutorial/",
)
"""Whole programs, installations and searches: a twentieth of the tests, and more than half of the time. Flakes count them apart."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is long."""
    for item in items:
        if item.nodeid.startswith(LONG):
            item.add_marker("long")


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
