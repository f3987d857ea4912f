"""What is said of a scenario, of who judges it and of where it can be played, is so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from client.protocol.profiles import RELEASES, profile_for
from harness.authoring.explanation import Explanation, document, explain
from harness.authoring.judging import COORDINATOR_OF, bench_at, places
from harness.authoring.telling import WIDTH_MAX, text
from harness.invariants import discover as discover_invariants
from harness.mutants import discover as discover_mutants
from harness.mutants.base import FAMILIES
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Expect
from harness.targets.registry import open_target
from harness.targets.request import TargetRequest
from harness.targets.vllm_rs.capabilities import capabilities as of_release
from harness.verdict import NOT_JUDGED
from tests.support.collection import every_scenario
from tests.support.explanations import IDS, explanation, golden_file

BEFORE_THE_RUN = ("target lacks", "no promise of", "only for engines")
"""How the reasons begin why an invariant does not judge at all."""


def loaded(name: str) -> LoadedScenario:
    (one,) = selection.load_all(selection.select([name]))
    return one


@pytest.fixture(scope="module")
def every() -> list[LoadedScenario]:
    return every_scenario()


@pytest.fixture(scope="module")
def all_told(every: list[LoadedScenario]) -> list[Explanation]:
    return [explain(one) for one in every]


@pytest.mark.slow
def test_every_built_in_scenario_is_explained(
    every: list[LoadedScenario], all_told: list[Explanation]
) -> None:
    known = {cls.id for cls in discover_invariants()}
    for one, told in zip(every, all_told, strict=True):
        lines = text(told, 80).plain.splitlines()
        assert lines[:2] == [one.id, one.scenario.title]
        assert [s.verb for s in told.steps] == [step.verb for step in one.scenario.steps]
        said = [s.text for s in told.steps]
        assert all(len(t) > 8 and (t[0].isupper() or t[0].isdigit()) for t in said), said
        long = [line for line in lines[3:] if len(line) > 80]
        assert [line for line in long if " " in line.strip().removeprefix("- ")] == []
        assert set(told.applying) | set(told.not_applying) == set(RELEASES)
        for bench in told.benches.values():
            assert set(bench.judging) | set(bench.skipped) == known
            assert not set(bench.judging) & set(bench.skipped)
        json.dumps(document(told))


@pytest.mark.parametrize("name", IDS)
def test_explanation_reads_as_the_golden_one(name: str) -> None:
    """After a change of the words: ``python -m tests.support.explanations``, and read them."""
    assert explanation(name) == golden_file(name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("waves/stale-first-request", "0.28.0"),
        ("lockstep/ranks-step-and-rest-together", "0.33.0"),
        ("requests/dropped-stream", "0.33.0"),
    ],
)
def test_invariants_that_are_said_to_judge_on_sim_do(name: str, release: str) -> None:
    bench = explain(loaded(name), release).benches["sim"]
    verdicts = run_scenario(loaded(name), RunOptions(profile=release)).verdicts
    left_out = {
        v.invariant: v.reason
        for v in verdicts
        if v.verdict == NOT_JUDGED and v.reason.startswith(BEFORE_THE_RUN)
    }
    assert left_out
    assert dict(bench.skipped) == left_out
    assert sorted([*bench.judging, *left_out]) == [v.invariant for v in verdicts]


def test_steps_that_are_said_not_to_be_judged_are_those_a_black_box_cannot_show() -> None:
    told = explain(loaded("requests/dropped-stream"))
    place = next(p for p in told.places if p.kind == "vllm-rs")
    assert bench_at(place, told.scenario, told.release).unseen == {7: ("see.registries",)}
    assert told.benches["sim"].unseen == {}
    assert "not the expectation of step 7: it lacks see.registries" in text(told, None).plain


def test_places_are_told_by_what_targets_declare() -> None:
    scenario = loaded("waves/stale-first-request").scenario
    found = {p.kind: p for p in places(scenario, RELEASES, "0.28.0")}
    sim = open_target(TargetRequest("sim")).capabilities(profile_for("0.28.0"))
    assert found["sim"].capabilities == sim
    assert found["vllm-rs"].capabilities == of_release("0.28.0")
    assert found["sim"].releases == RELEASES
    assert found["vllm-rs"].releases == ()
    assert "fault.link" in found["vllm-rs"].lacking


def test_target_that_can_play_it_in_some_releases_is_told_so(all_told: list[Explanation]) -> None:
    partly = [
        (told, place)
        for told in all_told
        for place in told.places
        if place.kind == "vllm-rs" and place.releases and place.releases != told.applying
    ]
    told, place = partly[0]
    assert f"- vllm-rs: in {place.releases[0]}" in text(told, None).plain


def test_release_for_which_nothing_is_played_is_said_to_be_none() -> None:
    told = explain(loaded("waves/stale-first-request"), "0.33.0")
    said = text(told, None).plain
    assert not told.applies
    assert "What follows is told for 0.33.0, for which nothing is played." in said
    assert "No target can play it in 0.33.0." in said


def test_mutants_are_those_of_the_hunt_and_of_the_invariants() -> None:
    told = explain(loaded("waves/stale-first-request"))
    assert told.kills == ("stale-first-request-leaves-out-target",)
    assert told.may_kill == ("coordinator-rewinds", "wave-counter-wraps")
    names = {mutant.id: mutant for mutant in discover_mutants()}
    assert {names[name].killed_by for name in told.may_kill} == {"wave.never-rewinds"}


def test_every_mutant_is_told_by_the_scenario_that_kills_it(all_told: list[Explanation]) -> None:
    killed = [name for told in all_told for name in told.kills]
    assert sorted(killed) == [mutant.id for mutant in discover_mutants()]


def test_families_of_coordinators_are_families() -> None:
    assert set(COORDINATOR_OF) <= set(FAMILIES)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("title", "Another title"),
        ("promise", "Another promise."),
        ("refs", ["vllm#77"]),
        ("profiles", ">=0.30"),
        ("known", []),
        ("invariants", ["request.add-once"]),
        ("engines", []),
    ],
)
def test_key_of_the_head_changes_what_is_said(key: str, value: Any) -> None:
    one = loaded("utility/failing-beside-hanging")
    changed = LoadedScenario(
        one.id, one.path, one.scenario.model_copy(update={key: value}), one.positions, one.text
    )
    assert text(explain(changed), None).plain != text(explain(one), None).plain


def test_steps_during_startup_are_set_apart() -> None:
    said = text(explain(loaded("handshake/gate-opens-after-all-subscribed")), None).plain
    assert "Steps 1 to 2 run during startup." in said
    assert "First, startup comes to its end." not in said


def test_text_is_wrapped_to_the_terminal_and_only_there() -> None:
    told = explain(loaded("waves/stale-first-request"))
    narrow = text(told, 60).plain.splitlines()
    assert max(map(len, narrow[3:])) <= 60
    wide = text(told, 300).plain.splitlines()
    assert max(map(len, wide[3:])) <= WIDTH_MAX
    plain = text(told, None).plain
    assert " ".join(plain.split()) == " ".join("\n".join(narrow).split())


def test_statements_of_all_who_judge_are_told_on_demand() -> None:
    told = explain(loaded("requests/dropped-stream"))
    short, whole = (text(told, None, verbose=v).plain for v in (False, True))
    statements = {
        cls.id: cls.doc()["statement"].replace("``", "`") for cls in discover_invariants()
    }
    judging = told.benches["sim"].judging
    assert all(f"- {name}: {statements[name]}" in whole for name in judging)
    assert f"- request.add-once: {statements['request.add-once']}" not in short


def test_expectation_for_some_releases_says_so() -> None:
    one = loaded("requests/dropped-stream")
    steps = [one.scenario.steps[0], *one.scenario.steps[-1:]]
    expect = Expect(in_flight=0, when=">=0.28")
    steps[-1] = steps[-1].model_copy(update={"expect": expect})
    changed = LoadedScenario(
        one.id, one.path, one.scenario.model_copy(update={"steps": steps}), one.positions, one.text
    )
    assert "asked of releases >=0.28 only" in explain(changed).steps[-1].text
