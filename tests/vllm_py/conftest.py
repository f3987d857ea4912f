"""Sources of a release; skipped with the reason where they cannot be had."""

from __future__ import annotations

import pytest

from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import parse
from harness.scenario.selection import builtin_dir
from tests.support.wheel_sources import tree

__all__ = ["tree"]
"""Fixtures that live elsewhere."""

RELEASES = ("0.22.0", "0.25.0", "0.29.0", "0.33.0")
"""Round the flips, so that a run of these tests stays short."""


@pytest.fixture
def run(tree, tmp_path):
    """Return ``run(scenario id, release or folder, profile)``, which plays a scenario."""

    def play(scenario_id, frontend, profile=None):
        if profile is None:
            tree(frontend)
        path = builtin_dir() / f"{scenario_id}.yaml"
        loaded = parse(path.read_text(encoding="utf-8"), path, name=scenario_id)
        options = RunOptions(
            target="vllm-py", frontend=str(frontend), profile=profile, out=tmp_path / "out"
        )
        return run_scenario(loaded, options)

    return play
