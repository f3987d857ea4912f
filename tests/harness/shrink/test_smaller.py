"""What smaller scenarios there are, as plain data."""

from __future__ import annotations

import pytest

from harness.scenario.checks import check
from harness.scenario.loader import default_vocabulary
from harness.scenario.model import Scenario
from harness.shrink.closures import gates, operations, without_gate, without_operation
from harness.shrink.ranks import ranks, without_rank
from harness.shrink.scenario import data_of
from harness.shrink.smaller import PASSES, nodes, total
from tests.support.collection import every_scenario

HEAD = {"title": "t", "promise": "p", "refs": ["vllm#1"]}


def story(*steps, **more):
    return {**HEAD, **more, "steps": list(steps)}


def test_operation_goes_with_all_that_speaks_of_it():
    whole = story(
        {"call": {"id": "a"}},
        {"call": {"id": "b"}},
        {"wait": {"event": "add", "request": "a"}},
        {"abort": "a"},
        {"cancel": "a"},
        {"drop": "b"},
        {"finish": ["a", "b"]},
        {"expect": {"op": "a", "outcome": "finished"}},
        {"expect": {"count": {"event": "abort", "request": "a", "equals": 1}}},
        {"expect": {"order": [{"event": "add", "request": "b"}, {"event": "add", "request": "a"}]}},
        engines=[
            {"rules": [{"on": "add", "request": "a", "do": [{"drop": True}]}]},
            {"engine": 1, "rules": [{"on": "add", "do": [{"output": {"request": "a"}}]}]},
        ],
        open_at_end=["a"],
    )
    assert operations(whole) == ["b", "a"]
    assert without_operation(whole, "a") == story(
        {"call": {"id": "b"}}, {"drop": "b"}, {"finish": ["b"]}
    )


def test_crowd_goes_with_each_of_its_callers():
    whole = story({"crowd": {"id": "c", "callers": 2}}, {"finish": ["c-0", "c-1"]}, {"fence": True})
    assert without_operation(whole, "c") == story({"fence": True})


def test_sample_goes_with_what_is_measured_by_it():
    whole = story({"sample": {"id": "s"}}, {"fence": True}, {"expect": {"process": {"since": "s"}}})
    assert without_operation(whole, "s") == story({"fence": True})


def test_gate_goes_with_who_waits_at_it_and_who_opens_it():
    whole = story(
        {"link": {"engine": 0, "hold": "g"}},
        {"call": {"id": "a", "read": "g"}},
        {"engine": {"do": [{"hang": "g"}, {"stats": {}}]}},
        {"open": "g"},
        {"open": "h"},
        engines=[
            {"join": {"gate": "g"}},
            {
                "engine": 1,
                "join": {"gate": "g", "hello_times": 2},
                "rules": [
                    {"on": "add", "do": [{"stream": {"tokens": 2, "pause_at": 1, "gate": "g"}}]},
                    {"on": "utility", "do": {"stall": "g"}},
                ],
            },
        ],
        open_at_end=["g", "h"],
    )
    assert gates(whole) == ["g", "h"]
    assert without_gate(whole, "g") == story(
        {"call": {"id": "a"}},
        {"engine": {"do": [{"stats": {}}]}},
        {"open": "h"},
        engines=[
            {
                "engine": 1,
                "join": {"hello_times": 2},
                "rules": [{"on": "add", "do": [{"stream": {"tokens": 2}}]}],
            }
        ],
        open_at_end=["h"],
    )


def test_engine_goes_and_those_above_it_move_down():
    whole = story(
        {"call": {"id": "a", "rank": 1}},
        {"call": {"id": "b", "rank": 2}},
        {"wait": {"event": "add", "engine": 1}},
        {"link": {"engine": 2, "fail": "x"}},
        {"engine": {"engine": [1, 2], "do": {"stats": {}}}},
        {"engine": {"engine": "all", "do": {"stats": {}}}},
        {"expect": {"count": {"event": "add", "engine": 1, "equals": 1}}},
        {"expect": {"count": {"event": "add", "engine": 2, "equals": 1}}},
        topology={"engines": 3, "data_parallel_size": 3},
        engines=[{"engine": 1, "join": {"hello_times": 2}}, {"engine": [0, 2], "rules": []}],
    )
    assert ranks(whole) == [2, 1, 0]
    assert without_rank(whole, 1) == story(
        {"call": {"id": "a"}},
        {"call": {"id": "b", "rank": 1}},
        {"link": {"engine": 1, "fail": "x"}},
        {"engine": {"engine": [1], "do": {"stats": {}}}},
        {"engine": {"engine": "all", "do": {"stats": {}}}},
        {"expect": {"count": {"event": "add", "engine": 1, "equals": 1}}},
        topology={"engines": 2, "data_parallel_size": 2},
        engines=[{"engine": [0, 1], "rules": []}],
    )


def test_ranks_that_are_named_stay_as_they_are():
    whole = story({"call": {"id": "a", "rank": 9}}, topology={"ranks": [4, 9]})
    assert without_rank(whole, 4) == story(
        {"call": {"id": "a", "rank": 9}}, topology={"ranks": [9]}
    )


def test_steps_that_stay_are_the_same_objects():
    """By that the reduction knows where the step went whose expectation failed."""
    expect = {"expect": {"in_flight": 0}}
    whole = story({"call": {"id": "a", "rank": 1}}, {"open": "g"}, expect)
    for smaller in (
        without_operation(whole, "a"),
        without_gate(whole, "g"),
        without_rank(whole, 1),
    ):
        assert any(step is expect for step in smaller["steps"])


@pytest.mark.slow
def test_every_pass_yields_only_other_data_and_leaves_what_it_was_given_alone():
    """Nearly all closures of a valid scenario are valid: what is left speaks of nothing gone."""
    seen = invalid = 0
    for loaded in every_scenario()[::12]:
        data = data_of(loaded.scenario)
        before = repr(data)
        for one in PASSES:
            for smaller in one(data):
                assert repr(smaller) != before, one.__name__
        assert repr(data) == before
        closed = [without_operation(data, name) for name in operations(data)]
        closed += [without_gate(data, name) for name in gates(data)]
        for smaller in closed:
            if not smaller["steps"]:
                continue
            seen += 1
            scenario = Scenario.model_validate(smaller)
            invalid += bool(check(scenario, default_vocabulary()))
    assert seen > 40
    assert invalid < seen / 10


def test_size_counts_keys_items_and_values():
    assert nodes({"a": 1}) == 2
    assert nodes({"a": [1, {"b": 2}]}) == 5
    assert (total({"a": [3, -4, True, "5"]}), total(2)) == (7, 2)
