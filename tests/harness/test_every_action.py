"""Every action of a behaviour file, once from a scenario to its effect, in both worlds."""

from __future__ import annotations

import pytest

from harness.play import child_ranks
from harness.scenario.model import Scenario
from mock_engines import events
from mock_engines.behaviours.model import Action
from tests.support.stories import WORLDS, broken, of, perform, statuses

IN_BOTH = pytest.mark.parametrize("world", ["sim", pytest.param("zmq", marks=pytest.mark.zmq)])

ONE_CALL = """
steps:
  - call: {id: a, rank: 0}
  - finish: a
"""
ONE_UTILITY = """
steps:
  - utility: {id: u, via: raw, method: list_loras}
  - finish: u
"""
COORDINATOR = "topology: {coordinator: in-process, waves: script}\n"


def add(do: str) -> str:
    return f"engines:\n  - {{engine: 0, rules: [{{on: add, do: {do}}}]}}\n"


def utility(do: str) -> str:
    return f"engines:\n  - {{engine: 0, rules: [{{on: utility, do: {do}}}]}}\n"


STORIES: dict[str, str] = {
    "default": add("{default: true}")
    + ONE_CALL
    + "  - expect: {op: a, outcome: finished, tokens: 3, finish: length}\n",
    "apply": "engines:\n  - rules: [{on: utility, method: add_lora, do: [{apply: true}, {hang: g}]}]\n"
    "steps:\n"
    "  - utility: {id: u, method: add_lora, args: [[x, 7, /x, null, false, false]]}\n"
    "  - wait: {event: applied, count: 2}\n"
    "  - expect: {engine: 0, state: {loras: [7]}}\n"
    "  - expect: {op: u, outcome: pending}\n"
    "  - cancel: u\n  - open: g\n",
    "reply": utility("{reply: [4]}") + ONE_UTILITY + "  - expect: {op: u, value: [[4], []]}\n",
    "reply_with": utility("[{reply_with: {value: 1, add_to_call_id: 99}}, {reply: 2}]")
    + ONE_UTILITY
    + "  - fence: true\n"
    "  - expect: {op: u, value: [2, []]}\n"
    "  - expect: {count: {event: dropped-reply, equals: 1}}\n",
    "fail": utility("{fail: no memory}")
    + ONE_UTILITY
    + "  - expect: {op: u, error: UtilityCallFailed, message: no memory}\n",
    "hang": utility("[{hang: g}, {default: true}]")
    + "steps:\n  - utility: {id: u, method: is_sleeping}\n  - wait: {event: reply, engine: 1}\n"
    "  - fence: true\n  - expect: {op: u, outcome: pending}\n  - open: g\n  - finish: u\n"
    "  - expect: {op: u, value: false}\n",
    "stall": utility("[{stall: g}, {default: true}]")
    + "steps:\n  - utility: {id: u, method: is_sleeping}\n  - wait: {event: stalled, engine: 0}\n"
    "  - call: {id: a, rank: 0}\n  - fence: true\n  - expect: {op: a, outcome: pending}\n"
    "  - expect: {count: {event: add, equals: 0}}\n  - open: g\n  - finish: [u, a]\n"
    "  - expect: {op: a, outcome: finished}\n  - expect: {op: u, value: false}\n",
    "delay_ms": add("[{delay_ms: 3}, {default: true}]")
    + ONE_CALL
    + "  - expect: {op: a, outcome: finished}\n",
    "drop": add("{drop: true}")
    + "open_at_end: [a]\nsteps:\n  - call: {id: a, rank: 0}\n  - wait: {event: add, engine: 0}\n"
    "  - fence: true\n  - expect: {op: a, outcome: pending}\n"
    "  - expect: {engine: 0, state: {requests: []}}\n",
    "stream": add("{stream: {tokens: 5, chunk: 2, finish: stop}}")
    + ONE_CALL
    + "  - expect: {op: a, tokens: 5, finish: stop}\n"
    "  - expect: {count: {event: call-output, equals: 3}}\n",
    "output": add(
        "[{output: {request: nobody, tokens: [5]}}, {output: {tokens: [7], finish: stop}}]"
    )
    + ONE_CALL
    + "  - expect: {op: a, tokens: 1, finish: stop}\n"
    "  - expect: {count: {event: dropped-output, equals: 1}}\n",
    "finish_only": add("{finish_only: true}")
    + ONE_CALL
    + "  - expect: {op: a, outcome: failed, error: RequestStreamClosed}\n",
    "stats": "steps:\n  - engine: {engine: 0, do: {stats: {running: 9, waiting: 9}}}\n"
    "  - fence: true\n  - call: {id: a}\n  - finish: a\n  - expect: {op: a, engine: 1}\n",
    "raw": "steps:\n  - engine: {engine: 0, do: {raw: {frames: ['text:ENGINE_CORE_DEAD']}}}\n"
    "  - wait: {event: health}\n  - expect: {healthy: false, health_error: EngineCoreDead}\n",
    "die": "steps:\n  - engine: {engine: 0, do: {die: sentinel}}\n"
    "  - wait: {event: health}\n  - expect: {healthy: false, health_error: EngineCoreDead}\n"
    "  - expect: {engine: 0, state: {alive: false}}\n",
    "wave_complete": COORDINATOR
    + "steps:\n  - engine: {engine: 0, do: [{start_wave: 0}, {wave_complete: {wave: null}}]}\n"
    "  - fence: true\n  - expect: {coordinator_wave: 1, coordinator_running: false}\n"
    "  - expect: {engine: 0, state: {wave: 1}}\n",
    "start_wave": COORDINATOR
    + "steps:\n  - engine: {engine: 0, do: {start_wave: 3}}\n  - fence: true\n"
    "  - expect: {coordinator_wave: 3, coordinator_running: true}\n"
    "  - expect: {count: {event: start_wave, engine: 1, where: {wave: 3}, equals: 1}}\n",
    "flood": COORDINATOR
    + "steps:\n  - engine: {engine: 0, do: {flood: {count: 20, start_wave_every: 10}}}\n"
    "  - fence: true\n  - expect: {coordinator_wave: 20}\n"
    "  - expect: {count: {event: start_wave, engine: 1, equals: 2}}\n",
    "open": "engines:\n"
    "  - {engine: 0, rules: [{on: add, do: [{hang: g}, {default: true}]}]}\n"
    "  - {engine: 1, rules: [{on: add, do: [{open: g}, {default: true}]}]}\n"
    "steps:\n  - call: {id: a, rank: 0}\n  - wait: {event: add, engine: 0}\n"
    "  - call: {id: b, rank: 1}\n  - finish: [a, b]\n  - expect: {op: a, outcome: finished}\n",
    "shut_down": "topology: {coordinator: in-process, waves: lockstep}\n"
    "steps:\n  - call: {id: a, rank: 0}\n  - finish: a\n  - fence: true\n"
    "  - engine: {engine: 1, do: {shut_down: drain}}\n  - wait: {event: died, engine: 1}\n"
    "  - expect: {op: a, outcome: finished}\n"
    "  - expect: {engine: 1, state: {alive: false}}\n",
}


def test_there_is_a_story_for_each_action():
    assert sorted(STORIES) == sorted(Action.model_fields)


@IN_BOTH
@pytest.mark.parametrize("verb", STORIES)
def test_action_has_its_effect_from_a_scenario_on(verb, world):
    assert f"{verb}:" in STORIES[verb]
    played = perform(STORIES[verb], WORLDS[world]())
    results = statuses(played)
    assert results
    assert [status for _, status in results] == ["held"] * len(results)
    assert broken(played) == []


@IN_BOTH
@pytest.mark.parametrize("how", ["close", "vanish"])
def test_engine_that_dies_without_a_word_is_not_served_and_returns(how, world):
    played = perform(
        f"open_at_end: [a]\n{add(f'{{die: {how}}}')}"
        "steps:\n  - call: {id: a, rank: 0}\n  - wait: {event: died, engine: 0}\n"
        "  - expect: {op: a, outcome: pending}\n  - engine: {engine: 0, rejoin: true}\n"
        "  - utility: {id: u, method: is_sleeping}\n  - finish: u\n"
        "  - expect: {op: u, value: false}\n  - expect: {healthy: true}\n",
        WORLDS[world](),
    )
    assert {status for _, status in statuses(played)} == {"held"}
    assert of(played, events.EngineDied) == [events.EngineDied(0, how)]


# --- stalls by steps ------------------------------------------------------------------------


@IN_BOTH
def test_step_that_stalls_an_engine_returns_and_later_steps_hear_it_go_on(world):
    played = perform(
        "steps:\n  - engine: {engine: 1, do: {stall: g}}\n  - call: {id: a, rank: 1}\n"
        "  - fence: true\n  - expect: {engine: 1, state: {stalled: true}}\n"
        "  - expect: {count: {event: add, equals: 0}}\n  - open: g\n  - finish: a\n"
        "  - expect: {engine: 1, state: {stalled: false}}\n  - expect: {op: a, tokens: 3}\n",
        WORLDS[world](),
    )
    assert {status for _, status in statuses(played)} == {"held"}
    assert of(played, events.EngineResumed) == [events.EngineResumed(1)]


@IN_BOTH
def test_fence_does_not_wait_for_an_engine_that_stalls_while_it_fences(world):
    """Nothing waits for the utility to arrive, so it may do so in mid-fence."""
    played = perform(
        utility("[{stall: g}, {default: true}]")
        + "steps:\n  - utility: {id: u, method: is_sleeping}\n  - fence: true\n"
        "  - expect: {op: u, outcome: pending}\n  - open: g\n  - finish: u\n"
        "  - expect: {op: u, value: false}\n",
        WORLDS[world](),
    )
    assert statuses(played) == [(2, "held"), (5, "held")]


@IN_BOTH
def test_engine_may_be_stalled_to_the_end_and_beyond(world):
    played = perform(
        "open_at_end: [g, a]\nsteps:\n  - engine: {engine: 1, do: {stall: g}}\n"
        "  - call: {id: a, rank: 1}\n  - expect: {op: a, outcome: pending}\n",
        WORLDS[world](),
    )
    assert statuses(played) == [(2, "held")]
    assert broken(played) == []
    assert of(played, events.EngineResumed) == []


@IN_BOTH
def test_stalled_engine_can_be_killed_by_a_step(world):
    played = perform(
        "open_at_end: [g]\nsteps:\n  - engine: {engine: 1, do: {stall: g}}\n"
        "  - engine: {engine: 1, do: {die: vanish}}\n  - engine: {engine: 1, rejoin: true}\n"
        "  - call: {id: a, rank: 1}\n  - finish: a\n  - expect: {op: a, outcome: finished}\n",
        WORLDS[world](),
    )
    assert statuses(played) == [(5, "held")]


@pytest.mark.parametrize(
    ("step", "ranks"),
    [
        ({"engine": 1, "do": {"stall": "g"}}, {1}),
        ({"engine": [0, 2], "do": [{"open": "x"}, {"die": "vanish"}]}, {0, 2}),
        ({"do": {"stall": "g"}}, {0, 1, 2}),
        ({"engine": 1, "do": {"die": "close"}}, set()),
        ({"engine": 1, "rejoin": True}, set()),
    ],
)
def test_engines_that_a_step_stalls_or_lets_vanish_are_to_be_child_processes(step, ranks):
    scenario = Scenario.model_validate(
        {
            "title": "t", "promise": "p", "refs": ["r"], "topology": {"engines": 3},
            "steps": [{"engine": step}, {"fence": True}],
        }
    )  # fmt: skip
    assert child_ranks(scenario) == ranks


# --- predicates -----------------------------------------------------------------------------


@IN_BOTH
def test_rule_takes_only_messages_whose_fields_it_names(world):
    played = perform(
        "engines:\n"
        "  - rules:\n"
        "      - {on: add, where: {data_parallel_rank: 1}, do: {stream: {tokens: 1}}}\n"
        "      - {on: utility, where: {args: \"['twelve']\"}, do: {fail: picked}}\n"
        "steps:\n  - call: {id: a, rank: 0}\n  - call: {id: b, rank: 1}\n  - finish: [a, b]\n"
        "  - utility: {id: u, method: set_weight_version, args: [eleven]}\n  - finish: u\n"
        "  - utility: {id: v, method: set_weight_version, args: [twelve]}\n  - finish: v\n"
        "  - expect: {op: a, tokens: 3}\n  - expect: {op: b, tokens: 1}\n"
        "  - expect: {op: u, outcome: finished}\n  - expect: {op: v, message: picked}\n",
        WORLDS[world](),
    )
    assert [status for _, status in statuses(played)] == ["held"] * 4
