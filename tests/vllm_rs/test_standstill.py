"""A step that does not come to its end at a real frontend is told as in simulation."""

from __future__ import annotations

import re

import pytest

from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.targets.vllm_rs.releases import NEWEST
from harness.worlds import ZmqWorld
from tests.support.stories import load

pytestmark = pytest.mark.vllm_rs

LIMIT_S = 1.0
"""Time of a step: what happens takes milliseconds, and the last one waits for nothing."""
HELD = """
engines: [{engine: 1, rules: [{on: utility, method: sleep, do: [{hang: g}, {default: true}]}]}]
steps:
  - utility: {id: u, method: sleep}
  - wait: {event: utility, engine: 1}
  - finish: u
  - open: g
"""
STALLED = """
steps:
  - engine: {engine: 1, do: {stall: go}}
  - utility: {id: u, method: is_sleeping}
  - finish: u
  - open: go
"""
NOTHING = "steps:\n  - wait: {event: abort, engine: 1}\n"


def report(result: ScenarioResult) -> list[str]:
    (stuck,) = [e for e in result.expectations if e.status == "violated"]
    return re.sub(r"#\d+", "#n", stuck.seen).splitlines()


@pytest.mark.parametrize(
    ("story", "told"),
    [
        (
            HELD,
            [
                "`u` has not ended",
                "engine 1 holds its reply to `sleep` (#n) at gate `g`, which step 3 (`open`) opens, "
                "behind this one",
                "`u` (sleep) is open, since #n",
            ],
        ),
        (
            STALLED,
            [
                "`u` has not ended",
                "engine 1 stands still since #n, at gate `go`, which step 3 (`open`) opens, behind "
                "this one",
                "`u` (is_sleeping) is open, since #n",
            ],
        ),
        (
            NOTHING,
            [
                "0 of 1 × abort at engine 1 came, and no other `abort` either",
                "every engine has answered what it got, and nobody waits at a gate; no call is open:"
                " it could only come from the frontend, of its own accord",
            ],
        ),
    ],
    ids=["reply held", "engine stalled", "nothing under way"],
)
def test_step_that_waits_in_vain_is_told_in_the_words_of_the_scenario(
    monkeypatch: pytest.MonkeyPatch, story: str, told: list[str]
) -> None:
    monkeypatch.setattr(ZmqWorld, "step_limit_s", LIMIT_S)
    result = run_scenario(load(story), RunOptions(target="vllm-rs", frontend=NEWEST))
    first, *rest = told
    assert report(result) == [
        f"it has waited since #n, for {LIMIT_S:g} s: {first}",
        *(f"  {line}" for line in rest),
    ]
