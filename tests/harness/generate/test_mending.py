"""A draft becomes a scenario that a file could hold: valid, with an end, and the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.generate.drafts import Can, Draft, Phrase
from harness.generate.files import to_yaml
from harness.generate.mending import scenario_of
from harness.generate.refs import Ref
from harness.generate.trial import Stage
from harness.scenario.checks import check
from harness.scenario.loader import default_vocabulary, parse
from harness.scenario.needs import needs
from harness.scenario.positions import parse_yaml
from mock_engines.behaviours.model import Action
from tests.support.generated import drawn, made

CALL = {"call": {"id": Ref("new-call")}}
UTILITY = {"utility": {"id": Ref("new-utility"), "method": "is_sleeping"}}
PLAIN = {"coordinator": "none", "engines": 2}
BATCHES = range(6)


@pytest.fixture
def can(sim: Stage) -> Can:
    return sim.can()


def draft(*story: Phrase, engines: tuple[dict[str, Any], ...] = (), **topology: Any) -> Draft:
    return Draft(topology={**PLAIN, **topology}, engines=engines, story=story)


def steps(one: Draft, can: Can) -> list[dict[str, Any]]:
    mended = scenario_of(one, can)
    assert mended is not None
    data: list[dict[str, Any]] = mended[1]["steps"]
    return data


def rule(on: str, *actions: dict[str, Any]) -> dict[str, Any]:
    return {"engine": Ref("rank", 0), "rules": [{"on": on, "do": list(actions)}]}


# --- any draft ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", BATCHES)
def test_generated_scenarios_pass_all_checks_and_ask_for_nothing_that_is_missing(
    can: Can, number: int
) -> None:
    found = made(can, number)
    assert len(found) > 5
    for scenario, _ in found:
        assert check(scenario, default_vocabulary()) == []
        assert needs(scenario) <= can.capabilities


@pytest.mark.parametrize("number", BATCHES)
def test_generated_scenarios_survive_the_way_through_a_file(everything: Can, number: int) -> None:
    for scenario, data in made(everything, number):
        text = to_yaml(data, ["any comment"])
        assert parse(text, Path("x.yaml"), name="x").scenario == scenario


@pytest.mark.parametrize("number", BATCHES)
def test_the_same_draft_becomes_the_same_scenario(can: Can, number: int) -> None:
    first = [scenario_of(one, can) for one in drawn(can, number)]
    again = [scenario_of(one, can) for one in drawn(can, number)]
    assert first == again


def test_every_gate_is_opened_and_every_op_is_started_once(can: Can) -> None:
    for number in BATCHES:
        for scenario, data in made(can, number):
            assert scenario.open_at_end == []
            ids = [s.get("call", s.get("utility", {})).get("id") for s in data["steps"]]
            given = [name for name in ids if name is not None]
            assert len(given) == len(set(given))


# --- single rules ---------------------------------------------------------------------------


def test_gate_that_nobody_opens_is_opened_at_the_end(can: Can) -> None:
    held = Phrase({"link": {"engine": Ref("rank", 0), "hold": Ref("new-gate", 0)}})
    assert steps(draft(held, Phrase(CALL)), can)[-1] == {"open": "g1"}


def test_caller_of_a_request_that_its_engine_drops_leaves(can: Can) -> None:
    one = draft(Phrase(CALL), Phrase(UTILITY), engines=(rule("add", {"drop": True}),))
    assert steps(one, can)[-1] == {"cancel": "c1"}


def test_caller_of_a_call_that_no_engine_answers_leaves(can: Can) -> None:
    one = draft(Phrase(CALL), Phrase(UTILITY), engines=(rule("utility", {"hang": True}),))
    assert {"cancel": "u1"} in steps(one, can)


def test_caller_of_work_that_ends_stays(can: Can) -> None:
    assert steps(draft(Phrase(CALL), Phrase(UTILITY)), can) == [
        {"call": {"id": "c1"}},
        {"utility": {"id": "u1", "method": "is_sleeping"}},
    ]


def test_wait_is_put_in_where_the_message_is_sure_to_come(can: Can) -> None:
    assert steps(draft(Phrase(CALL, stage="sent")), can)[1] == {
        "wait": {"event": "add", "request": "c1"}
    }


def test_wait_is_left_out_behind_a_send_that_is_held(can: Can) -> None:
    held = Phrase({"link": {"engine": Ref("rank", 0), "hold": Ref("new-gate", 0)}})
    verbs = [next(iter(step)) for step in steps(draft(held, Phrase(CALL, stage="sent")), can)]
    assert verbs == ["link", "call", "open"]


def test_action_that_waits_is_carried_out_in_the_background(can: Can) -> None:
    act = {"engine": {"engine": Ref("rank", 1), "do": [{"hang": Ref("new-gate", 0)}]}}
    assert steps(draft(Phrase(act)), can)[0]["engine"]["background"] is True


def test_dead_engine_is_told_nothing_more(can: Can) -> None:
    dies = {"engine": {"engine": Ref("rank", 1), "do": [{"die": "close"}]}}
    acts = {"engine": {"engine": Ref("rank", 1), "do": [{"stats": {"running": 1}}]}}
    told = [step for step in steps(draft(Phrase(dies), Phrase(acts)), can) if "engine" in step]
    assert told == [{"engine": {"engine": 1, "do": [{"die": "close"}]}}]


def test_engine_without_a_coordinator_sends_no_notices(can: Can) -> None:
    act = {"engine": {"engine": Ref("rank", 1), "do": [{"wave_complete": 1}]}}
    assert steps(draft(Phrase(act), Phrase(CALL)), can) == [{"call": {"id": "c1"}}]


def test_reference_to_nothing_leaves_its_step_out(can: Can) -> None:
    assert steps(draft(Phrase({"cancel": Ref("open-op")}), Phrase(CALL)), can) == [
        {"call": {"id": "c1"}}
    ]


def test_late_engine_is_let_in_before_the_story_begins(can: Can) -> None:
    entry = {"engine": Ref("rank", 1), "rules": [], "join": {"gate": Ref("new-gate", 0)}}
    assert steps(draft(Phrase(CALL), engines=(entry,)), can)[:2] == [
        {"open": "g1"},
        {"connect": True},
    ]


def test_startup_that_may_fail_is_the_whole_story(can: Can) -> None:
    entry = {"engine": Ref("rank", 1), "rules": [], "join": {"hello_times": 2}}
    mended = scenario_of(draft(Phrase(CALL), engines=(entry,)), can)
    assert mended is not None
    assert mended[0].connect_fails
    assert [step.verb for step in mended[0].steps] == ["connect"]


def test_step_that_the_checks_refuse_is_left_out_and_the_rest_stays(can: Can) -> None:
    wrong = {"engine": {"engine": 77, "do": [{"stats": {"running": 1}}]}}
    assert steps(draft(Phrase(wrong), Phrase(CALL)), can) == [{"call": {"id": "c1"}}]


def test_step_that_the_target_cannot_do_is_left_out_and_the_rest_stays(can: Can) -> None:
    lacking = Phrase({"http": {"id": Ref("new-request"), "path": "/health"}})
    assert steps(draft(lacking, Phrase(CALL)), can) == [{"call": {"id": "c1"}}]


def test_rule_whose_action_does_not_go_with_its_message_is_left_out(can: Can) -> None:
    odd = {"engine": Ref("rank", 0), "rules": [{"on": "abort", "do": [{"reply": 1}]}]}
    mended = scenario_of(draft(Phrase(CALL), engines=(odd,)), can)
    assert mended is not None
    assert mended[0].engines == []


def test_two_frontends_make_the_topology_bootstrapped(can: Can) -> None:
    mended = scenario_of(draft(Phrase(CALL), frontends=2, coordinator="in-process"), can)
    assert mended is not None
    topology = mended[0].topology
    assert (topology.transport, topology.coordinator) == ("bootstrapped", "external")


def test_every_action_out_of_the_blue_can_be_carried_out(everything: Can) -> None:
    for number in BATCHES:
        for scenario, _ in made(everything, number):
            for step in scenario.steps:
                for action in step.engine.do if step.engine is not None else []:
                    assert isinstance(action, Action)
                    assert action.reply_with is None or action.reply_with.call_id is not None
                    assert action.output is None or action.output.request is not None


def test_comment_of_a_found_scenario_adds_no_line_to_it() -> None:
    hostile = ["x\ny: 1", "\u2028z: 1\x85q: 1", "\x1b[31m\u202e\x00"]
    text = to_yaml({"title": "t"}, hostile)
    assert parse_yaml(text)[0] == {"title": "t"}
    assert all(line.isprintable() for line in text.split("\n"))
