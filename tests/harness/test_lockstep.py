"""Engines that step together, from a scenario to what their loops did."""

from __future__ import annotations

import itertools

import pytest

from client.protocol.profiles import RELEASES
from harness.scenario.loader import builtin_dir
from harness.scenario.loader import load as load_file
from harness.scenario.problems import ScenarioFileError
from mock_engines import events
from tests.support.stories import WORLDS, load, of, perform, statuses

IN_BOTH = pytest.mark.parametrize("world", ["sim", pytest.param("zmq", marks=pytest.mark.zmq)])
TOGETHER = "topology: {coordinator: in-process, waves: lockstep}\n"
LOSES_THE_WAKE_UP = (
    "topology: {coordinator: in-process, waves: lockstep}\n"
    "engines:\n  - {engine: 1, rules: [{on: start_wave, do: {drop: true}}]}\n"
)


def held(played) -> bool:
    return {status for _, status in statuses(played)} <= {"held"}


@IN_BOTH
@pytest.mark.parametrize("release", ["0.22.0", "0.29.0", "0.32.0", "0.33.0"])
def test_a_request_wakes_all_ranks_and_the_wave_ends_for_all(world, release):
    played = perform(
        TOGETHER + "steps:\n  - call: {id: a, rank: 1, max_tokens: 5}\n  - finish: a\n"
        "  - fence: true\n  - expect: {op: a, outcome: finished, tokens: 5, finish: length}\n"
        "  - expect: {engine: 0, state: {wave: 1, running: false}}\n"
        "  - expect: {engine: 1, state: {wave: 1, running: false}}\n",
        WORLDS[world](),
        release=release,
    )
    assert held(played)
    notices = [n for n in of(played, events.WaveNoticeSent) if n.notice == "complete"]
    assert notices == [events.WaveNoticeSent(0, "complete", 0)]
    assert of(played, events.RanksStuck) == []
    last = of(played, events.ExchangeHeld)[-1]
    assert not last.goes_on
    assert last.unfinished == ()


@IN_BOTH
def test_a_rank_that_loses_its_wake_up_lets_its_peer_wait_and_a_later_message_frees_both(world):
    played = perform(
        LOSES_THE_WAKE_UP.replace("on: start_wave", "on: start_wave, nth: 1")
        + "steps:\n  - call: {id: a, rank: 0, max_tokens: 2}\n  - wait: {event: start_wave, engine: 1}\n"
        "  - fence: true\n  - expect: {op: a, outcome: pending}\n"
        "  - call: {id: b, rank: 1, max_tokens: 2}\n  - finish: [a, b]\n",
        WORLDS[world](),
    )
    assert held(played)
    stuck = of(played, events.RanksStuck)
    assert stuck
    assert {(s.entered, s.missing, s.for_good) for s in stuck} == {(((0, "forward"),), (1,), False)}
    assert "waits for a message" in stuck[0].states[1]


@IN_BOTH
def test_a_dead_rank_strands_its_peers_at_once_and_for_good(world):
    played = perform(
        TOGETHER.replace("lockstep}", "lockstep, lockstep: {step_ms: 1}}") + "open_at_end: [a]\n"
        "steps:\n  - call: {id: a, rank: 0, max_tokens: 500}\n  - wait: {event: output, count: 2}\n"
        "  - engine: {engine: 1, do: {die: close}}\n  - wait: {event: stuck}\n",
        WORLDS[world](),
    )
    stuck = of(played, events.RanksStuck)
    assert stuck[0].for_good
    assert stuck[0].missing == (1,)
    assert stuck[0].states[1] == "engine 1: dead"


@IN_BOTH
def test_ranks_of_which_one_is_told_to_pause_spin_until_the_other_is_told(world):
    played = perform(
        TOGETHER.replace("lockstep}", "lockstep, lockstep: {step_ms: 1}}") + "engines:\n"
        "  - {engine: 1, rules: [{on: utility, method: 'pause_*', do: [{hang: g}, {default: true}]}]}\n"
        "steps:\n  - call: {id: a, rank: 1, max_tokens: 20}\n  - wait: {event: output, count: 2}\n"
        "  - utility: {id: p, method: pause, args: [wait, true]}\n  - finish: a\n  - fence: true\n"
        "  - expect: {op: p, outcome: pending}\n  - open: g\n  - finish: p\n  - fence: true\n"
        "  - expect: {engine: 0, state: {running: false, pause_state: new}}\n",
        WORLDS[world](),
    )
    assert held(played)
    spins = of(played, events.RanksSpin)
    assert {(spin.engine, spin.pausing) for spin in spins} == {(0, (0,))}
    assert of(played, events.RanksStuck) == []


def test_a_rank_that_is_told_to_pause_waits_for_an_idle_one_that_is_not():
    played = perform(
        TOGETHER + "engines:\n"
        "  - {engine: 1, rules: [{on: utility, method: 'pause_*', do: [{hang: g}, {default: true}]}]}\n"
        "steps:\n  - utility: {id: p, method: pause, args: [keep, true]}\n  - wait: {event: moved}\n"
        "  - fence: true\n  - open: g\n  - finish: p\n",
        WORLDS["sim"](),
    )
    assert held(played)
    stuck = {(each.missing, each.for_good) for each in of(played, events.RanksStuck)}
    assert stuck == {((1,), False)}


def test_a_paused_rank_says_why_it_ignores_a_wake_up():
    played = perform(
        TOGETHER
        + "steps:\n  - utility: {id: p, method: pause, args: [keep, true]}\n  - finish: p\n"
        "  - call: {id: a, rank: 0}\n  - engine: {engine: 0, do: {start_wave: 1}}\n  - fence: true\n"
        "  - utility: {id: r, method: resume}\n  - finish: [a, r]\n",
        WORLDS["sim"](),
    )
    assert held(played)
    whys = {(e.engine, e.why) for e in of(played, events.StartWaveIgnored)}
    assert (1, "the rank is paused") in whys


@IN_BOTH
def test_a_rank_that_reconnects_goes_on_where_it_was(world):
    played = perform(
        TOGETHER
        + "steps:\n  - call: {id: a, rank: 0, max_tokens: 3}\n  - finish: a\n  - fence: true\n"
        "  - engine: {engine: 1, rejoin: true}\n  - call: {id: b, rank: 1, max_tokens: 3}\n"
        "  - finish: b\n  - fence: true\n  - expect: {engine: 1, state: {wave: 2}}\n",
        WORLDS[world](),
    )
    assert held(played)
    assert of(played, events.EngineDied) == []


@IN_BOTH
def test_a_rank_that_reconnects_in_the_middle_of_a_wave_goes_on(world):
    played = perform(
        TOGETHER + "steps:\n  - call: {id: a, rank: 1, max_tokens: 2000}\n"
        "  - wait: {event: output, count: 2}\n"
        "  - engine: {engine: 1, rejoin: true}\n  - finish: a\n"
        "  - expect: {op: a, outcome: finished, tokens: 2000}\n",
        WORLDS[world](),
    )
    assert held(played)


def test_a_request_that_only_takes_effect_is_never_taken_up_by_the_loop():
    played = perform(
        TOGETHER + "open_at_end: [a]\n"
        "engines:\n  - {engine: 0, rules: [{on: add, do: {apply: true}}]}\n"
        "steps:\n  - call: {id: a, rank: 0}\n  - wait: {event: add}\n  - fence: true\n"
        "  - expect: {op: a, outcome: pending}\n  - expect: {engine: 0, state: {requests: [a]}}\n"
        "  - abort: [a]\n  - fence: true\n  - expect: {engine: 0, state: {requests: []}}\n",
        WORLDS["sim"](),
    )
    assert held(played)
    assert of(played, events.OutputSent) == []


@pytest.mark.parametrize("fault", ["paused-twice", "resumed-twice"])
def test_engines_without_an_open_fault_keep_the_promise_of_its_scenario(fault):
    broken = load_file(builtin_dir() / "lockstep" / f"{fault}.yaml").scenario
    pace = broken.topology.lockstep.model_copy(update={"mended": [fault]})
    topology = broken.topology.model_copy(update={"lockstep": pace})
    played = perform(broken.model_copy(update={"topology": topology}))
    assert held(played)
    assert not held(perform(broken))


@pytest.mark.parametrize(("how", "finish"), [("abort", "abort"), ("drain", "length")])
def test_shutdown_ends_what_runs_as_it_says(how, finish):
    played = perform(
        "topology: {engines: 1, coordinator: in-process, waves: lockstep, lockstep: {step_ms: 1}}\n"
        "steps:\n  - call: {id: a, rank: 0, max_tokens: 9}\n  - wait: {event: output}\n"
        f"  - engine: {{engine: 0, do: {{shut_down: {how}}}}}\n  - wait: {{event: died}}\n"
        f"  - expect: {{op: a, outcome: finished, finish: {finish}}}\n",
        WORLDS["sim"](),
    )
    assert held(played)


def test_scripted_ends_of_a_stream_come_with_its_last_row():
    played = perform(
        TOGETHER
        + "engines:\n  - {engine: 0, rules: [{on: add, do: {stream: {tokens: 2, finish: stop,"
        " stop_reason: 7}}}]}\nsteps:\n  - call: {id: a, rank: 0, max_tokens: 9}\n  - finish: a\n"
        "  - expect: {op: a, tokens: 2, finish: stop}\n",
        WORLDS["sim"](),
    )
    assert held(played)


@pytest.mark.parametrize("step_ms", ["3", "[1, 9]"])
def test_forward_passes_take_their_time(step_ms):
    played = perform(
        f"topology: {{coordinator: in-process, waves: lockstep, lockstep: {{step_ms: {step_ms}}}}}\n"
        "steps:\n  - call: {id: a, rank: 0, max_tokens: 50}\n  - finish: a\n",
        WORLDS["sim"](),
    )
    times = [r.time_us for r in played.records if isinstance(r.event, events.OutputSent)]
    gaps = [round((later - earlier) / 1000) for earlier, later in itertools.pairwise(times)]
    low, high = (3, 3) if step_ms == "3" else (1, 9)
    assert low <= min(gaps)
    assert max(gaps) <= high
    assert (len(set(gaps)) > 1) == (step_ms != "3")


@pytest.mark.parametrize("release", RELEASES)
def test_counts_are_published_when_they_change(release):
    played = perform(
        TOGETHER
        + "steps:\n  - call: {id: a, rank: 0, max_tokens: 2}\n  - finish: a\n  - fence: true\n",
        WORLDS["sim"](),
        release=release,
    )
    said = [(s.engine, s.running, s.waiting, s.path) for s in of(played, events.StatsSent)]
    assert said == [
        (0, 0, 1, "coordinator"),
        (0, 1, 0, "coordinator"),
        (0, 0, 0, "coordinator"),
    ]


@pytest.mark.parametrize(
    ("story", "says"),
    [
        ("topology: {waves: lockstep}\n", "engines that step together need a coordinator"),
        (
            "topology: {coordinator: in-process, waves: lockstep, start_rank: 1}\n",
            "need rank 0, which speaks for all",
        ),
        ("topology: {lockstep: {batch: 2}}\n", "nothing steps at this pace"),
        ("topology: {engine_release: '0.1'}\n", "'0.1' is no known release"),
        (
            TOGETHER + "engines: [{engine: 0, process: true, rules: []}]\n",
            "lives in the harness's own",
        ),
        (
            TOGETHER + "engines: [{rules: [{on: add, do: {output: {tokens: [1]}}}]}]\n",
            "'output' sends what the loop",
        ),
        (
            TOGETHER + "engines: [{rules: [{on: add, do: {stream: {gate: g}}}]}]\n",
            "as many tokens in a step as its pace says",
        ),
        (
            TOGETHER + "engines: [{rules: [{on: add, do: {stream: {finish: null}}}]}]\n",
            "comes to its end",
        ),
    ],
)
def test_what_engines_that_step_together_cannot_do_is_refused(story, says):
    with pytest.raises(ScenarioFileError, match=says.replace("(", r"\(")):
        load(story + "steps:\n  - call: {id: a}\n  - finish: a\n  - open: g\n")


@pytest.mark.parametrize("pace", ["step_ms: [5, 1]", "step_ms: -1", "step_ms: [0, 3600001]"])
def test_a_pace_that_no_clock_has_is_refused(pace):
    with pytest.raises(ScenarioFileError, match="step_ms is a time, or"):
        load(
            f"topology: {{coordinator: in-process, waves: lockstep, lockstep: {{{pace}}}}}\n"
            "steps:\n  - call: {id: a}\n"
        )


def test_only_engines_that_step_together_are_shut_down_in_order():
    with pytest.raises(ScenarioFileError, match="only engines that step together"):
        load("steps:\n  - engine: {engine: 0, do: {shut_down: drain}}\n")


@IN_BOTH
@pytest.mark.parametrize(("method", "meets"), [("update_weights", True), ("echo", False)])
def test_ranks_meet_in_a_transfer_of_weights_and_in_no_other_worker_method(world, method, meets):
    played = perform(
        TOGETHER + "engines:\n"
        "  - {engine: 1, rules: [{on: utility, method: collective_rpc, do: [{hang: g}, {default: true}]}]}\n"
        f"steps:\n  - utility: {{id: u, method: collective_rpc, args: [{method}]}}\n"
        "  - wait: {event: utility, engine: 0}\n  - fence: true\n"
        f"  - expect: {{count: {{event: reply, engine: 0, equals: {int(not meets)}}}}}\n"
        "  - open: g\n  - finish: u\n  - expect: {op: u, outcome: finished}\n",
        WORLDS[world](),
    )
    assert held(played)
    stuck = {(e.group, e.entered, e.for_good) for e in of(played, events.RanksStuck)}
    assert stuck == ({("device", ((0, "collective_rpc"),), False)} if meets else set())
