"""Long stories: the same from the same seed, sound, and played to their end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import parse
from harness.scenario.writing import scenario_text
from harness.soak.story import LEAVING, Size, soak


def loaded(seed: int, size: Size):
    return parse(scenario_text(soak(seed, size)), Path("soak.yaml"), name=f"soak-{seed}")


def verbs(seed: int, size: Size) -> Counter:
    steps = soak(seed, size)["steps"]
    return Counter(
        step["utility"]["method"] if "utility" in step else next(iter(step)) for step in steps
    )


def test_same_seed_writes_the_same_story_and_another_one_another():
    assert soak(3) == soak(3)
    assert soak(3)["steps"] != soak(4)["steps"]


def test_story_has_as_many_callers_as_it_is_told_or_few_more_and_all_that_an_admin_does():
    seen = verbs(0, Size())
    assert 1_000 <= seen["call"] <= 1_003
    assert {"pause", "resume", "sleep", "wake_up", "cancel", "abort", "fence", "finish"} <= set(
        seen
    )
    assert seen["cancel"] > 1_000 * LEAVING / 2


def test_callers_who_are_told_to_leave_late_wait_until_their_request_is_at_an_engine():
    at_an_engine: set[str] = set()
    for step in soak(2, Size(requests=200, early=False))["steps"]:
        if step.get("wait", {}).get("event") == "add":
            at_an_engine.add(step["wait"]["request"])
        elif str(step.get("cancel", "")).startswith("r"):
            assert step["cancel"] in at_an_engine
        elif "abort" in step:
            assert step["abort"][0] in at_an_engine


def test_every_pause_is_answered_before_anybody_resumes():
    for seed in range(20):
        pending: set[str] = set()
        for step in soak(seed, Size(requests=300))["steps"]:
            call = step.get("utility", {})
            if call.get("method") in ("pause", "sleep"):
                pending.add(call["id"])
            elif call.get("method") in ("resume", "wake_up"):
                assert not pending
            elif "finish" in step:
                pending -= set(step["finish"])
            elif "fence" in step:
                pending.clear()


def test_calls_of_admins_overlap_only_where_that_is_asked_for():
    def unanswered(size: Size) -> int:
        """How often an admin pauses or resumes while another one is not yet answered."""
        pending: set[str] = set()
        found = 0
        for step in soak(1, size)["steps"]:
            call = step.get("utility", {})
            if call.get("method") in ("pause", "resume", "wake_up"):
                found += bool(pending)
                pending.add(call["id"])
            elif "finish" in step:
                pending -= set(step["finish"])
        return found

    assert unanswered(Size()) == 0
    assert unanswered(Size(overlaps=True)) > 0


def test_mended_engines_survive_overlapping_admins_and_others_do_not():
    broken = Size(engines=3, requests=200, overlaps=True)
    mended = Size(engines=3, requests=200, overlaps=True, mended=True)
    options = RunOptions(strategy="random", schedules=3)
    seeds = range(6)
    results = [run_scenario(loaded(seed, broken), options) for seed in seeds]
    found = {v.invariant for r in results for v in r.verdicts if v.verdict == "violated"}
    assert {"lockstep.no-rank-waits-alone", "lockstep.comes-to-rest"} >= found
    assert "lockstep.no-rank-waits-alone" in found
    assert {run_scenario(loaded(seed, mended), options).status for seed in seeds} == {"held"}


@pytest.mark.parametrize("coordinator", ["in-process", "external"])
@pytest.mark.parametrize("profile", ["0.22.0", "0.28.0", "0.32.0", "0.33.0"])
def test_story_is_sound_and_holds(coordinator, profile):
    one = loaded(1, Size(engines=3, requests=60, coordinator=coordinator))
    result = run_scenario(one, RunOptions(profile=profile, strategy="random", schedules=2))
    assert result.status == "held", [v for v in result.verdicts if v.verdict == "violated"]
