"""Two frontends on one set of engines, in simulation and over real sockets."""

from __future__ import annotations

import pytest

from client.events import CoordinatorStateApplied, RequestRegistered, UtilityRegistered
from harness.targets.base import TargetError
from harness.targets.second import CLIENT_INDEX, FIRST_CALL_ID, ID_SUFFIX
from harness.trace.events import ClientReleased
from mock_engines.events import AbortSeen, AddSeen, UtilitySeen
from tests.support.stories import WORLDS, broken, of, outcomes, perform, statuses, unchecked

TWO = {"engines": 2, "frontends": 2, "transport": "bootstrapped"}
HELD = [{"rules": [{"on": "add", "do": {"stream": {"pause_at": 1, "gate": "rest"}}}]}]


def story(*steps, **parts):
    return unchecked(topology={**TWO, **parts.pop("topology", {})}, steps=list(steps), **parts)


@pytest.fixture(params=["sim", pytest.param("zmq", marks=pytest.mark.zmq)])
def world(request):
    return WORLDS[request.param]()


def test_each_request_carries_its_frontend_s_index_and_comes_back_to_it(world):
    played = perform(
        story(
            {"call": {"id": "here", "rank": 0, "max_tokens": 2}},
            {"call": {"id": "there", "rank": 0, "max_tokens": 4, "frontend": 1}},
            {"finish": ["here", "there"]},
            {"expect": {"op": "here", "tokens": 2, "outcome": "finished"}},
            {"expect": {"op": "there", "tokens": 4, "outcome": "finished"}},
        ),
        world,
    )
    assert statuses(played) == [(3, "held"), (4, "held")]
    assert broken(played) == []
    added = {event.external_id: event for event in of(played, AddSeen)}
    assert (added["here"].client_index, added["there"].client_index) == (0, CLIENT_INDEX)
    assert added["there"].request_id == "there" + ID_SUFFIX


def test_an_abort_comes_from_the_frontend_whose_caller_left(world):
    played = perform(
        story(
            {"call": {"id": "here", "request_id": "same", "rank": 0}},
            {"call": {"id": "there", "request_id": "same", "rank": 0, "frontend": 1}},
            {"wait": {"event": "output", "count": 2}},
            {"abort": ["there"]},
            {"open": "rest"},
            {"finish": ["here", "there"]},
            engines=HELD,
        ),
        world,
    )
    assert outcomes(played) == {"here": "finished", "there": "finished"}
    assert of(played, AbortSeen) == [AbortSeen(0, ("same" + ID_SUFFIX,), CLIENT_INDEX)]
    assert broken(played) == []


def test_utility_calls_of_the_second_begin_far_above_the_first_s(world):
    played = perform(
        story(
            {"utility": {"id": "here", "method": "is_sleeping"}},
            {"utility": {"id": "there", "method": "is_sleeping", "frontend": 1}},
            {"finish": ["here", "there"]},
        ),
        world,
    )
    ids = {event.client_index: [] for event in of(played, UtilitySeen)}
    for event in of(played, UtilitySeen):
        ids[event.client_index].append(event.call_id)
    assert all(call_id < FIRST_CALL_ID for call_id in ids[0])
    assert all(call_id >= FIRST_CALL_ID for call_id in ids[CLIENT_INDEX])
    assert len(of(played, UtilityRegistered)) == 4
    assert broken(played) == []


def test_of_the_second_s_inside_the_trace_has_no_registry(world):
    played = perform(
        story(
            {"call": {"id": "there", "rank": 0, "frontend": 1}},
            {"finish": ["there"]},
            {"expect": {"in_flight": 0}},
        ),
        world,
    )
    assert of(played, RequestRegistered) == []
    assert statuses(played) == [(2, "held")]


def test_both_are_let_go_of_at_the_end(world):
    played = perform(story({"fence": True}), world)
    # Released once the run is over: nothing of either client is left.
    assert broken(played) == []
    assert all(not event.alive for event in of(played, ClientReleased))


def test_both_take_over_a_publish_of_the_external_coordinator(world):
    played = perform(
        story(
            {"coordinator": {"publish": [None, 6, True]}},
            {"wait": {"event": "state-applied", "where": {"wave": 6}, "count": 2}},
            {"coordinator": {"stop": True}},
            {"coordinator": {"start": True}},
            {"coordinator": {"publish": [None, 7, True]}},
            {"wait": {"event": "state-applied", "where": {"wave": 7}, "count": 2}},
            topology={"coordinator": "external"},
        ),
        world,
    )
    assert not played.story.stuck
    assert CoordinatorStateApplied(7, running=True) in of(played, CoordinatorStateApplied)


def test_a_second_frontend_that_the_topology_lacks_is_an_error_of_the_harness():
    scenario = unchecked(
        topology={"engines": 1, "transport": "bootstrapped"},
        steps=[{"call": {"id": "there", "frontend": 1}}, {"finish": ["there"]}],
    )
    with pytest.raises(TargetError, match="two-frontends"):
        perform(scenario)
