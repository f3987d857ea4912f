"""The number of engines changes, from a scenario to what engines, client and coordinator did."""

from __future__ import annotations

import pytest

from client import events as client
from harness.scenario.needs import needs
from harness.scenario.problems import ScenarioFileError
from harness.trace.events import ScaleEnded, Snapshot
from mock_engines import events as mock
from tests.support.stories import WORLDS, load, load_unchecked, of, perform, statuses

IN_BOTH = pytest.mark.parametrize("world", ["sim", pytest.param("zmq", marks=pytest.mark.zmq)])
RELEASES = pytest.mark.parametrize("release", ["0.27.0", "0.28.0", "0.29.0", "0.32.0", "0.33.0"])
HEAD = 'profiles: ">=0.27"\n'
TOGETHER = "topology: {{engines: {0}, later: {1}, coordinator: {2}, waves: lockstep}}\n"
INSIDE = HEAD + TOGETHER
OUTSIDE = HEAD + TOGETHER.replace("waves", "transport: bootstrapped, waves")
GROW = "steps:\n  - scale: {id: grow, to: 3}\n"
HUNG = (
    "engines:\n  - {engine: 0, rules: [{on: utility, method: commit_prepared_elastic_ep, "
    "do: [{hang: go}, {default: true}]}]}\n" + GROW + "  - wait: {event: utility, engine: 0, "
    "method: commit_prepared_elastic_ep}\n  - fence: true\n"
)


def held(played) -> bool:
    return {status for _, status in statuses(played)} <= {"held"}


def verdicts(played) -> dict[str, str]:
    return {verdict.invariant: verdict.verdict for verdict in played.verdicts}


@IN_BOTH
@RELEASES
@pytest.mark.parametrize("coordinator", ["in-process", "external"])
def test_engines_come_and_go_under_load(world, release, coordinator):
    head = INSIDE if coordinator == "in-process" else OUTSIDE
    played = perform(
        head.format(2, 1, coordinator) + "steps:\n  - call: {id: stays, rank: 0, max_tokens: 60}\n"
        "  - call: {id: goes, rank: 1, max_tokens: 100000}\n"
        "  - wait: {event: call-output, request: goes}\n"
        "  - scale: {id: grow, to: 3}\n  - finish: grow\n  - call: {id: new, rank: 2}\n"
        "  - finish: new\n  - scale: {id: shrink, to: 1}\n  - finish: [shrink, stays, goes]\n"
        "  - fence: true\n"
        "  - expect: {op: goes, outcome: finished, finish: abort}\n"
        "  - expect: {op: stays, outcome: finished, tokens: 60}\n"
        "  - expect: {op: new, outcome: finished, engine: 2}\n",
        WORLDS[world](),
        release=release,
    )
    assert held(played)
    assert "violated" not in verdicts(played).values()
    switches = [(s.before, s.ranks) for s in of(played, mock.GroupSwitched)]
    assert switches == [((0, 1), (0, 1, 2)), ((0, 1, 2), (0,))]
    changes = [(c.connected, c.routed) for c in of(played, client.EnginesChanged)]
    assert changes == [
        ((0, 1, 2), (0, 1)),
        ((0, 1, 2), (0, 1, 2)),
        ((0, 1, 2), (0,)),
        ((0,), (0,)),
    ]
    assert sorted(r.engine for r in of(played, mock.EngineRemoved)) == [1, 2]
    told = [(n.engines_before, n.engines_after) for n in of(played, client.ScaleNoticeHandled)]
    assert told == ([(2, 3), (3, 1)] if coordinator == "external" else [])
    assert verdicts(played)["elastic.only-members-get-requests"] == "held"
    assert verdicts(played)["elastic.leaving-rank-loses-nothing"] == "held"


@RELEASES
def test_new_rank_takes_the_wave_of_its_peers_over(release):
    played = perform(
        INSIDE.format(2, 1, "in-process")
        + "steps:\n  - call: {id: a}\n  - finish: a\n  - fence: true\n"
        "  - scale: {id: grow, to: 3}\n  - finish: grow\n  - fence: true\n",
        release=release,
    )
    (switch,) = of(played, mock.GroupSwitched)
    assert (switch.running, switch.wave, switch.step) == (False, 2, 0)
    last = {m.engine: (m.running, m.wave, m.pause) for m in of(played, mock.RankMoved)}
    assert last == dict.fromkeys((0, 1, 2), (False, 2, "none"))
    assert verdicts(played)["lockstep.agrees-at-rest"] == "held"


@IN_BOTH
@pytest.mark.parametrize("waves", ["auto", "script"])
def test_engines_that_do_not_step_together_come_and_go(world, waves):
    played = perform(
        HEAD + f"topology: {{engines: 2, later: 1, coordinator: in-process, waves: {waves}}}\n"
        "steps:\n  - scale: {id: grow, to: 3}\n  - finish: grow\n  - call: {id: a, rank: 2}\n"
        "  - finish: a\n  - scale: {id: shrink, to: 1}\n  - finish: shrink\n  - fence: true\n"
        "  - expect: {op: a, outcome: finished, engine: 2}\n"
        "  - expect: {op: shrink, outcome: finished}\n",
        WORLDS[world](),
    )
    assert held(played)
    assert [s.ranks for s in of(played, mock.GroupSwitched)] == [(0, 1, 2), (0,)]


def test_engine_that_refuses_to_prepare_fails_the_change_and_the_rest_stays_as_it_is():
    played = perform(
        INSIDE.format(2, 1, "in-process")
        + "engines:\n  - {engine: 1, rules: [{on: utility, method: reinitialize_distributed, "
        "do: {fail: no memory}}]}\n" + GROW + "  - finish: grow\n"
        "  - expect: {op: grow, outcome: failed, error: UtilityCallFailed, message: no memory}\n"
        "  - call: {id: a, rank: 1}\n  - finish: a\n"
        "  - expect: {op: a, outcome: finished}\n  - expect: {server_info: {engine_count: 2}}\n",
    )
    assert held(played)


def test_shutdown_ends_a_change_that_is_under_way():
    played = perform(
        INSIDE.format(2, 1, "in-process") + HUNG + "  - shutdown: {}\n  - finish: grow\n"
        "  - expect: {op: grow, outcome: failed, error: ClientClosed}\n  - open: go\n",
    )
    assert held(played)
    (closed,) = of(played, client.ClientClosed)
    assert closed == client.ClientClosed((), 0)


def test_caller_who_leaves_leaves_no_task_behind():
    played = perform(
        INSIDE.format(2, 1, "in-process") + HUNG + "  - cancel: grow\n  - open: go\n"
        "  - expect: {op: grow, outcome: cancelled}\n  - expect: {pending_utility_calls: 0}\n",
    )
    assert held(played)
    assert of(played, ScaleEnded) == [ScaleEnded("grow", 3, "cancelled", None, "")]


def test_second_change_is_refused_and_the_third_begins_when_the_first_is_over():
    played = perform(
        INSIDE.format(2, 2, "in-process") + HUNG + "  - scale: {id: second, to: 4}\n"
        "  - finish: second\n  - expect: {op: second, outcome: failed, error: ScaleRefused}\n"
        "  - open: go\n  - finish: grow\n  - scale: {id: third, to: 4}\n  - finish: third\n"
        "  - expect: {op: third, outcome: finished}\n",
    )
    assert held(played)


def test_release_without_two_stages_refuses():
    story = (
        "topology: {engines: 2, later: 1, coordinator: in-process, waves: lockstep}\n" + GROW
    ) + "  - finish: grow\n  - expect: {op: grow, outcome: failed, error: ScaleRefused}\n"
    played = perform(load_unchecked(story).scenario, release="0.26.0")
    assert held(played)


def test_utility_call_that_a_removed_engine_never_answers_ends():
    played = perform(
        INSIDE.format(3, 0, "in-process")
        + "engines:\n  - {engine: 2, rules: [{on: utility, method: list_loras, do: {hang: true}}]}\n"
        "steps:\n  - utility: {id: u, method: list_loras}\n"
        "  - wait: {event: utility, engine: 2, method: list_loras}\n"
        "  - scale: {id: shrink, to: 2}\n  - finish: [shrink, u]\n"
        "  - expect: {op: u, outcome: failed, error: Transport, message: engine 2 was removed}\n"
        "  - expect: {pending_utility_calls: 0}\n",
    )
    assert held(played)


def test_request_whose_add_is_on_its_way_reaches_a_leaving_engine_before_its_pause():
    played = perform(
        INSIDE.format(2, 0, "in-process")
        + "steps:\n  - link: {engine: 1, frames: add, hold: slow}\n"
        "  - call: {id: a, rank: 1}\n  - scale: {id: shrink, to: 1}\n  - fence: true\n"
        "  - expect: {count: {event: utility, method: pause_scheduler, equals: 0}}\n"
        "  - open: slow\n  - finish: [a, shrink]\n  - expect: {op: a, outcome: finished}\n"
        "  - expect: {op: shrink, outcome: finished}\n  - expect: {in_flight: 0}\n",
    )
    assert held(played)
    ends = [o.finish for o in of(played, mock.OutputSent) if o.finish is not None]
    assert len(ends) == 1


def test_load_of_a_removed_rank_is_gone_when_it_returns():
    played = perform(
        INSIDE.format(2, 0, "in-process")
        + "steps:\n  - call: {id: a, rank: 1, max_tokens: 100000}\n"
        "  - wait: {event: call-output, request: a}\n  - scale: {id: shrink, to: 1}\n"
        "  - finish: [shrink, a]\n  - scale: {id: grow, to: 2}\n  - finish: grow\n"
        "  - expect: {in_flight: 0}\n  - call: {id: b, rank: 1}\n  - finish: b\n"
        "  - expect: {op: b, outcome: finished, engine: 1}\n",
    )
    assert held(played)
    assert of(played, Snapshot)[0].loads == ((0, 0), (1, 0))


@pytest.mark.parametrize(
    ("story", "title"),
    [
        (
            "topology: {engines: 2, later: 1, coordinator: in-process}\n" + GROW,
            "0.22.0 does not change the number of engines in two stages",
        ),
        (INSIDE.format(1, 1, "in-process") + GROW, "there are 2 engines at most"),
        (
            INSIDE.format(2, 1, "in-process") + "steps:\n  - fence: true\n",
            "no step starts these engines",
        ),
        (
            HEAD + "topology: {engines: 2, later: 1}\n" + GROW,
            "engines that come and go need a coordinator",
        ),
        (
            HEAD + "topology: {start_rank: 1, later: 1, coordinator: in-process}\n" + GROW,
            "where the number of engines changes, ranks begin with 0 and leave none out",
        ),
        (
            HEAD + "topology: {engines: 2, later: 1, coordinator: external, "
            "transport: bootstrapped, frontends: 2}\n" + GROW,
            "only one frontend can change the number of its engines",
        ),
        (
            INSIDE.replace(", waves: lockstep", "").format(2, 1, "in-process")
            + "engines: [{engine: 0, process: true}]\n" + GROW,
            "an engine that may come or go lives in the harness's own process",
        ),
        (
            INSIDE.format(63, 2, "in-process") + GROW,
            "there are too many engines",
        ),
    ],
)  # fmt: skip
def test_what_cannot_change_is_found_before_anything_runs(story, title):
    with pytest.raises(ScenarioFileError) as caught:
        load(story)
    assert title in str(caught.value)


def test_change_of_the_number_asks_for_its_capability():
    asked = needs(load(INSIDE.format(2, 1, "in-process") + GROW).scenario)
    assert "op.scale" in asked
    assert "op.scale" not in needs(load("steps:\n  - fence: true\n").scenario)


def test_engine_that_dies_during_the_change_fails_it():
    played = perform(
        INSIDE.format(2, 1, "in-process") + HUNG + "  - engine: {engine: 1, do: {die: sentinel}}\n"
        "  - finish: grow\n  - expect: {op: grow, outcome: failed, error: EngineCoreDead}\n"
        "  - open: go\n",
    )
    assert held(played)


def test_death_while_the_notice_is_awaited_fails_the_change():
    played = perform(
        INSIDE.format(2, 1, "in-process")
        + "engines:\n  - {engine: 0, rules: [{on: utility, method: commit_prepared_elastic_ep, "
        "do: {reply: null}}]}\n"
        + GROW
        + "  - wait: {event: reply, method: commit_prepared_elastic_ep, count: 2}\n  - fence: true\n"
        "  - expect: {op: grow, outcome: pending}\n"
        "  - engine: {engine: 0, do: {die: sentinel}}\n  - finish: grow\n"
        "  - expect: {op: grow, outcome: failed, error: EngineCoreDead}\n",
    )
    assert held(played)


def test_leaving_engine_that_follows_a_script_answers_before_it_goes():
    played = perform(
        HEAD + "topology: {engines: 2, coordinator: in-process}\n"
        "engines:\n  - {engine: 1, rules: [{on: utility, method: reinitialize_distributed, "
        "do: [{apply: true}, {delay_ms: 5}, {reply: late}]}]}\n"
        "steps:\n  - scale: {id: shrink, to: 1}\n  - finish: shrink\n"
        "  - expect: {op: shrink, outcome: finished}\n"
        "  - expect: {order: [{event: reply, engine: 1, method: reinitialize_distributed}, "
        "{event: removed, engine: 1}]}\n",
    )
    assert held(played)


def test_results_of_a_call_are_those_of_all_engines_that_there_are():
    played = perform(
        INSIDE.format(2, 1, "in-process")
        + GROW
        + "  - finish: grow\n  - utility: {id: u, method: is_sleeping, via: raw}\n  - finish: u\n"
        "  - expect: {op: u, outcome: finished, value: [false, false, false]}\n",
    )
    assert held(played)
    assert verdicts(played)["utility.result-order"] == "held"
