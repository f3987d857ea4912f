"""Results to report on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.results import ExpectationResult, ScenarioResult, VerdictResult

HELD = ScenarioResult(
    scenario="waves/stale",
    title="a stale request",
    refs=("vllm#46833",),
    profile="0.24.0",
    mutant=None,
    status="held",
    expectations=(ExpectationResult(3, "held", "wave = 5", "wave = 5"),),
    verdicts=(VerdictResult("wave.never-rewinds", "must", "held", exercised=4),),
    schedules=20,
    strategy="random",
    seed=7,
    digest="00ff",
    duration_s=0.25,
)
VIOLATED = replace(
    HELD,
    status="violated",
    mutant="coordinator-rewinds",
    verdicts=(
        VerdictResult(
            "wave.never-rewinds",
            "must",
            "violated",
            exercised=1,
            message="the coordinator went from wave 5 back to 4",
            expected="current wave >= 5",
            seen="current wave == 4 at event 118",
            witness=(97, 118),
        ),
    ),
    failure_file="wavecheck-out/waves-stale.json",
    witness_lines=(
        "#97  t=0.400s  coordinator: first-request wave=5",
        "#118  t=0.412s  coordinator: first-request wave=4",
    ),
)


@pytest.fixture
def held() -> ScenarioResult:
    return HELD


@pytest.fixture
def violated() -> ScenarioResult:
    return VIOLATED


def doc(name: str) -> Mapping[str, str]:
    """Docstring parts of the one invariant here."""
    assert name == "wave.never-rewinds"
    return {
        "statement": "The current wave never gets smaller.",
        "reason": "Ranks that count waves apart wait for each other for ever.",
        "source": "vllm#46833",
        "limits": "",
    }


@pytest.fixture(name="doc")
def doc_fixture() -> object:
    return doc
