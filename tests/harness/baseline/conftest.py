"""Baselines and results to compare, small enough to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.baseline.file import BaselineFile, parse_baseline
from harness.baseline.model import Baseline
from harness.baseline.observed import Observed

RACE = "waves/rewind-under-a-flood-of-waves"
PROMISE = "wave.never-rewinds"


def waiver(**changes: Any) -> dict[str, Any]:
    """A waiver as data."""
    return {
        "scenario": RACE,
        "invariant": PROMISE,
        "target": "vllm-rs",
        "owner": "@waves",
        "reason": "vllm#46833",
        "expires": "2026-12-31",
        **changes,
    }


def pin(**changes: Any) -> dict[str, Any]:
    """A pin as data."""
    return {"target": "vllm-rs", "judged": [RACE], **changes}


def baseline(*, pins: Any = (), waivers: Any = ()) -> Baseline:
    """A checked model."""
    return Baseline.model_validate({"format": 1, "pins": list(pins), "waivers": list(waivers)})


def seen(**changes: Any) -> Observed:
    """A violation on 0.24.0."""
    found = {
        "scenario": RACE,
        "target": "vllm-rs",
        "release": "0.24.0",
        "status": "violated",
        "broken": (PROMISE,),
    }
    return Observed(**{**found, **changes})


def held(**changes: Any) -> Observed:
    """The same scenario, held."""
    return seen(**{"status": "held", "broken": (), **changes})


def unjudged(**changes: Any) -> Observed:
    """The same scenario, not judged."""
    return seen(**{"status": "not_judged", "broken": (), "reason": "the target cannot", **changes})


def file_of(text: str) -> BaselineFile:
    """The text of a file, checked."""
    return parse_baseline(text, Path("baseline.yaml"))


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CI system that runs these tests must not decide what they see."""
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
