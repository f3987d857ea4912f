"""The driver: what each step does and records, and how a run ends, whatever happens in it."""

from __future__ import annotations

import asyncio
import re

import pytest

from client.aio import all_done
from harness.play import build
from harness.scenario.model import Step
from harness.standstill.telling import describe_step
from harness.targets.base import TargetError
from harness.trace.events import (
    AbortRequested,
    CallEnded,
    CallOutput,
    CallStarted,
    CancelRequested,
    ConnectEnded,
    FaultInjected,
    Fenced,
    GateWasOpened,
    Healed,
    HealthSample,
    RunEnded,
    Snapshot,
    StepBegan,
    UtilityEnded,
    UtilityStarted,
)
from harness.trace.recorder import Recorder
from mock_engines.events import AbortSeen, AddSeen, StartWaveSeen, UtilitySeen
from tests.support.stories import (
    Avoid,
    broken,
    kinds,
    load_unchecked,
    of,
    outcomes,
    perform,
    sim,
    spec_of,
    statuses,
    unchecked,
)

HARNESS = (
    CallStarted, CallOutput, CallEnded, UtilityStarted, UtilityEnded, CancelRequested,
    AbortRequested, ConnectEnded, FaultInjected, Fenced, GateWasOpened, Healed, HealthSample,
    RunEnded, Snapshot, StepBegan,
)  # fmt: skip
EXTERNAL = "topology: {coordinator: external, transport: bootstrapped, waves: script}\n"
LATE = "engines:\n  - rules: [{on: add, do: [{hang: g}, {default: true}]}]\n"
HANG = "engines:\n  - rules: [{on: add, do: {hang: g}}, {on: utility, do: {hang: g}}]\n"


def own(played):
    """What the harness itself recorded, without the ends that all runs have in common."""
    events = [r.event for r in played.records if isinstance(r.event, HARNESS)]
    found = [event for event in events if event != GateWasOpened("*")]
    first = next(i for i, event in enumerate(found) if isinstance(event, StepBegan))
    last = next(i for i, event in enumerate(found) if isinstance(event, Healed))
    return found[first:last]


def faults(played):
    return [event.what for event in of(played, FaultInjected)]


# --- start and end --------------------------------------------------------------------------


def test_run_starts_heals_samples_fences_and_ends():
    played = perform("steps:\n  - fence: true\n")
    found = [r.event for r in played.records if isinstance(r.event, HARNESS)]
    assert found == [
        ConnectEnded(None, ""),
        StepBegan(0, "fence"),
        Fenced("step"),
        GateWasOpened("*"),
        Healed(),
        Snapshot("end", (), (), ((0, 0), (1, 0)), None, None),
        HealthSample(True, None, ""),
        Fenced("end"),
        RunEnded(()),
    ]
    assert kinds(played.records)[-3:] == ["health", "closed", "released"]
    assert not played.story.stuck


def test_story_without_connect_step_begins_once_all_engines_have_joined():
    played = perform("topology: {engines: 3, coordinator: in-process}\nsteps:\n  - fence: true\n")
    before = kinds(played.records)[: kinds(played.records).index("step")]
    assert before.count("joined") == before.count("connected") == 3
    assert before[-1] == "connect-ended"


def test_connect_step_lets_the_steps_before_it_run_during_startup():
    played = perform("""
engines:
  - {engine: 1, join: {gate: late}}
steps:
  - wait: {event: joined, engine: 0}
  - expect: {count: {event: connect-ended, equals: 0}}
  - open: late
  - connect: true
  - expect: {connect: ok}
""")
    assert statuses(played) == [(1, "held"), (4, "held")]


def test_expected_startup_failure_is_recorded_and_the_steps_run():
    played = perform("""
connect_fails: true
topology: {config: {ready_timeout_s: 2}}
engines:
  - {engine: 1, join: {never: true}}
steps:
  - connect: true
  - expect: {connect: failed, error: HandshakeTimeout, message: 2s}
""")
    assert statuses(played) == [(1, "held")]
    (ended,) = of(played, ConnectEnded)
    assert ended.error == "HandshakeTimeout"
    assert (of(played, Snapshot), of(played, HealthSample)) == ([], [])
    assert of(played, Fenced) == [Fenced("end")]


@pytest.mark.parametrize("steps", ["  - fence: true\n", "  - connect: true\n"])
def test_startup_that_fails_unexpectedly_cannot_be_judged(steps):
    story = (
        "topology: {config: {ready_timeout_s: 2}}\n"
        "engines:\n  - {engine: 1, join: {never: true}}\n"
        f"steps:\n{steps}"
    )
    with pytest.raises(TargetError, match=r"startup failed: HandshakeTimeout: .* after 2s"):
        perform(story)


def test_engine_that_does_not_join_a_connected_client_cannot_be_judged():
    # The subscription that READY answers is missing; the client itself does not need it.
    story = """
topology: {coordinator: external, transport: bootstrapped}
engines:
  - {engine: 1, join: {subscribe_times: 0}}
steps:
  - fence: true
"""
    with pytest.raises(
        TargetError,
        match=r"^the client is connected, but after 120 s engines have not joined: 0, 1$",
    ):
        perform(story)


def test_startup_that_never_ends_cannot_be_judged():
    story = """
topology: {config: {ready_timeout_s: 1000}}
engines:
  - {engine: 1, join: {never: true}}
steps:
  - connect: true
"""
    with pytest.raises(TargetError, match=r"^startup did not come to its end, 120 s after"):
        perform(story)


def test_story_that_is_stuck_during_startup_is_healed_before_startup_is_waited_for():
    played = perform("""
topology: {config: {ready_timeout_s: 1000}}
engines:
  - {engine: 1, join: {gate: late}}
steps:
  - wait: {event: abort}
  - open: late
  - connect: true
""")
    assert statuses(played) == [(0, "violated")]
    ends = [r.event for r in played.records if isinstance(r.event, Healed | ConnectEnded | Fenced)]
    assert ends == [Healed(), ConnectEnded(None, ""), Fenced("end")]


# --- calls and utilities --------------------------------------------------------------------


def test_call_step_records_start_outputs_and_end():
    played = perform("""
steps:
  - call: {id: a, rank: 1, max_tokens: 2, prompt: [7, 8, 9]}
  - finish: a
""")
    events = own(played)
    tokens = [event.tokens for event in events if isinstance(event, CallOutput)]
    assert [len(each) for each in tokens] == [1, 1]
    assert events == [
        StepBegan(0, "call"),
        CallStarted("a", "a", 1, (), "auto"),
        StepBegan(1, "finish"),
        CallOutput("a", tokens[0], None),
        CallOutput("a", tokens[1], "length"),
        CallEnded("a", "finished", "length", None, ""),
    ]
    assert [add.prompt for add in of(played, AddSeen)] == [(7, 8, 9)]
    op = played.story.ops["a"]
    assert (op.outcome, op.finish, op.tokens) == ("finished", "length", [*tokens[0], *tokens[1]])


def test_call_step_records_rank_text_surface_and_own_request_id():
    played = perform("""
steps:
  - call: {id: a, request_id: shared, rank_text: [" 1 "], surface: grpc}
  - finish: a
""")
    assert of(played, CallStarted) == [CallStarted("a", "shared", None, (" 1 ",), "grpc")]
    assert [(add.engine, add.external_id) for add in of(played, AddSeen)] == [(1, "shared")]


def test_failed_call_ends_with_class_and_text_of_its_error():
    played = perform("steps:\n  - call: {id: a, rank: 5}\n  - finish: a\n")
    (ended,) = of(played, CallEnded)
    assert (ended.outcome, ended.error) == ("failed", "InvalidDataParallelRank")
    assert "5" in ended.message
    op = played.story.ops["a"]
    assert (op.outcome, op.error, op.message) == (ended.outcome, ended.error, ended.message)


@pytest.mark.parametrize(
    ("via", "value"),
    [("method", False), ("raw", [False, False]), ("consensus", False)],
)
def test_utility_step_calls_by_method_raw_or_consensus(via, value):
    played = perform(f"""
steps:
  - utility: {{id: u, method: is_sleeping, via: {via}, result: bool}}
  - finish: u
""")
    assert own(played) == [
        StepBegan(0, "utility"),
        UtilityStarted("u", "is_sleeping", via),
        StepBegan(1, "finish"),
        UtilityEnded("u", "is_sleeping", "finished", repr(value), None, ""),
    ]
    assert played.story.ops["u"].value == value


def test_failed_utility_ends_with_class_and_text_of_its_error():
    played = perform("""
engines:
  - {engine: 1, rules: [{on: utility, method: sleep, do: {fail: no memory}}]}
steps:
  - utility: {id: u, method: sleep}
  - finish: u
""")
    (ended,) = of(played, UtilityEnded)
    assert (ended.outcome, ended.value, ended.error) == ("failed", "None", "UtilityCallFailed")
    assert "no memory" in ended.message
    assert outcomes(played) == {"u": "failed"}


def test_utility_arguments_and_unencodable_reach_the_frontend():
    played = perform("""
steps:
  - utility: {id: u, method: echo, args: [1, two], via: raw}
  - utility: {id: v, method: echo, via: raw, unencodable: true}
  - finish: [u, v]
""")
    assert {seen.args for seen in of(played, UtilitySeen)} == {"[1, 'two']"}
    assert played.story.ops["v"].error == "Encode"


@pytest.mark.parametrize(("verb", "kind"), [("cancel", "call"), ("drop", "call")])
def test_leaving_a_running_call_records_how_and_its_end(verb, kind):
    played = perform(f"""
{HANG}
steps:
  - {kind}: {{id: a, rank: 0}}
  - wait: {{event: add}}
  - {verb}: a
  - open: g
""")
    assert own(played)[3:6] == [
        StepBegan(2, verb),
        CancelRequested("a", verb),
        CallEnded("a", "cancelled", None, None, ""),
    ]
    assert outcomes(played) == {"a": "cancelled"}
    assert len(of(played, CallEnded)) == 1
    assert of(played, AbortSeen) == [AbortSeen(0, ("a",))]


def test_cancelling_a_running_utility_records_its_end():
    played = perform(f"""
{HANG}
steps:
  - utility: {{id: u, method: is_sleeping}}
  - wait: {{event: utility, count: 2}}
  - cancel: u
  - open: g
""")
    assert own(played)[3:6] == [
        StepBegan(2, "cancel"),
        CancelRequested("u", "cancel"),
        UtilityEnded("u", "is_sleeping", "cancelled", "None", None, ""),
    ]
    assert outcomes(played) == {"u": "cancelled"}
    assert len(of(played, UtilityEnded)) == 1


def test_operation_cancelled_before_its_task_ran_still_has_an_end():
    story = """
steps:
  - call: {id: a}
  - cancel: a
  - utility: {id: u, method: is_sleeping}
  - cancel: u
"""
    played = perform(story, sim(Avoid("op a", "op u")))
    assert own(played) == [
        StepBegan(0, "call"),
        CallStarted("a", "a", None, (), "auto"),
        StepBegan(1, "cancel"),
        CancelRequested("a", "cancel"),
        CallEnded("a", "cancelled", None, None, ""),
        StepBegan(2, "utility"),
        UtilityStarted("u", "is_sleeping", "method"),
        StepBegan(3, "cancel"),
        CancelRequested("u", "cancel"),
        UtilityEnded("u", "is_sleeping", "cancelled", "None", None, ""),
    ]
    assert outcomes(played) == {"a": "cancelled", "u": "cancelled"}
    assert (of(played, AddSeen), of(played, UtilitySeen), broken(played)) == ([], [], [])
    assert of(played, RunEnded) == [RunEnded(())]


def test_cancelling_what_has_ended_changes_nothing():
    played = perform("steps:\n  - call: {id: a}\n  - finish: a\n  - cancel: a\n")
    assert outcomes(played) == {"a": "finished"}
    assert len(of(played, CallEnded)) == 1


def test_abort_step_asks_by_the_external_id_of_each_operation():
    played = perform(f"""
{HANG}
steps:
  - call: {{id: a, request_id: outer, rank: 0}}
  - call: {{id: b, rank: 1}}
  - wait: {{event: add, count: 2}}
  - abort: [a, b]
  - finish: [a, b]
  - open: g
""")
    assert of(played, AbortRequested) == [AbortRequested(("a", "b"))]
    seen = [(event.engine, event.request_ids) for event in of(played, AbortSeen)]
    assert sorted(seen) == [(0, ("outer",)), (1, ("b",))]
    assert [op.finish for op in played.story.ops.values()] == ["abort", "abort"]


def test_abort_of_a_name_that_is_no_operation_passes_it_on():
    played = perform(unchecked(steps=[{"abort": ["stranger"]}, {"fence": True}]))
    assert of(played, AbortRequested) == [AbortRequested(("stranger",))]
    assert of(played, AbortSeen) == []


# --- waiting --------------------------------------------------------------------------------


def test_wait_counts_what_happened_before_it():
    played = perform("""
steps:
  - call: {id: a}
  - call: {id: b}
  - finish: [a, b]
  - wait: {event: add, count: 2}
  - wait: {event: call-ended, request: b}
""")
    assert not played.story.stuck


def test_wait_for_more_than_there_is_goes_on_with_the_last_of_them():
    played = perform(f"""
{HANG}
steps:
  - call: {{id: a, rank: 0}}
  - wait: {{event: add}}
  - engine:
      engine: 0
      background: true
      do: [{{delay_ms: 5}}, {{stats: {{}}}}, {{delay_ms: 5}}, {{stats: {{}}}}]
  - wait: {{event: stats, count: 2}}
  - expect: {{count: {{event: stats, equals: 2}}}}
  - open: g
""")
    assert statuses(played) == [(4, "held")]
    times = [r.time_us for r in played.records if kinds([r]) == ["stats"]]
    assert times == [5_000, 10_000]


def test_wait_that_never_happens_is_a_violated_expectation_and_the_run_still_ends_well():
    played = perform(f"""
{LATE}
steps:
  - call: {{id: a, rank: 0}}
  - link: {{engine: 1, frames: add, hold: held}}
  - call: {{id: b, rank: 1}}
  - wait: {{event: abort, count: 2, engine: 1}}
  - open: held
  - open: g
  - expect: {{op: a, outcome: finished}}
""")
    assert played.story.stuck
    (result,) = played.story.results
    assert (result.step, result.outcome.status) == (3, "violated")
    assert result.outcome.expected == ("step 3 (wait for 2 × abort at engine 1) comes to its end")
    told = re.sub(r"#\d+", "#n", result.outcome.seen).splitlines()
    assert told[0] == (
        "it has waited since #n, for 120 s: 0 of 2 × abort at engine 1 came, and no other `abort` "
        "either"
    )
    assert told[1].startswith("  engine 0 holds request `a` (#n) at gate `g`, which step 5")
    assert told[2].startswith(
        "  gate `held` is closed, which step 4 (`open`) opens, behind this one"
    )
    # Healed: both operations come to their end behind the gates; judged; torn down.
    assert outcomes(played) == {"a": "finished", "b": "finished"}
    assert [step.index for step in of(played, StepBegan)] == [0, 1, 2, 3]
    assert of(played, Fenced) == [Fenced("end")]
    assert of(played, RunEnded) == [RunEnded(())]
    held = {v.invariant for v in played.verdicts if v.verdict == "held"}
    assert {"request.accepted-ends", "request.every-add-ends"} <= held
    assert kinds(played.records)[-1] == "released"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("  - call: {id: a}\n  - finish: a\n", "finish a"),
        ("  - call: {id: a}\n  - utility: {id: u, method: sleep}\n  - finish: [u, a]\n",
         "finish u, a"),
        ("  - load: {clients: 2, requests: 2}\n", "load"),
    ],
)  # fmt: skip
def test_step_that_never_ends_says_which_it_was(steps, words):
    played = perform(HANG + "open_at_end: [g]\nsteps:\n" + steps)
    (result,) = played.story.results
    assert result.outcome.expected == f"step {result.step} ({words}) comes to its end"


def test_stuck_load_leaves_no_caller_behind():
    played = perform(HANG + "open_at_end: [g]\nsteps:\n  - load: {clients: 2, requests: 2}\n")
    assert outcomes(played) == {"load1-0-0": "cancelled", "load1-1-0": "cancelled"}
    assert of(played, RunEnded) == [RunEnded(())]


def test_finish_returns_for_every_outcome():
    played = perform(f"""
{HANG}
steps:
  - call: {{id: gone, rank: 0}}
  - call: {{id: refused, rank: 7}}
  - cancel: gone
  - finish: [gone, refused]
  - open: g
""")
    assert outcomes(played) == {"gone": "cancelled", "refused": "failed"}


def test_last_fence_lies_behind_all_that_the_last_step_caused():
    """The ABORT is on its way when the steps are over, and nothing waits for it."""
    story = f"{HANG}open_at_end: [g]\nsteps:\n  - call: {{id: a, rank: 0}}\n"
    story += "  - wait: {event: add}\n  - drop: a\n"
    for late in ("engine 0", "abort", "nobody"):
        played = perform(story, sim(Avoid(late)))
        ends = [r.event for r in played.records if isinstance(r.event, AbortSeen | Fenced)]
        assert ends == [AbortSeen(0, ("a",)), Fenced("end")]


# --- gates and ends -------------------------------------------------------------------------


def test_open_step_opens_one_gate():
    played = perform("""
engines:
  - {engine: 0, rules: [{on: add, do: [{hang: g}, {default: true}]}]}
  - {engine: 1, rules: [{on: add, do: [{hang: h}, {default: true}]}]}
steps:
  - call: {id: a, rank: 0}
  - call: {id: b, rank: 1}
  - wait: {event: add, count: 2}
  - open: g
  - finish: a
  - expect: {op: b, outcome: pending}
  - open: h
""")
    assert statuses(played) == [(5, "held")]
    assert [event.gate for event in of(played, GateWasOpened)] == ["g", "h", "*"]
    assert outcomes(played) == {"a": "finished", "b": "finished"}


def test_open_at_end_keeps_its_gate_closed_and_its_operation_open():
    played = perform("""
engines:
  - {engine: 0, rules: [{on: add, do: [{hang: kept}, {default: true}]}]}
  - {engine: 1, rules: [{on: add, do: [{hang: other}, {default: true}]}]}
open_at_end: [kept, a]
steps:
  - call: {id: a, rank: 0}
  - call: {id: b, rank: 1}
  - wait: {event: add, count: 2}
  - fence: true
  - open: other
""")
    assert [event.gate for event in of(played, GateWasOpened)] == ["other"]
    assert of(played, RunEnded) == [RunEnded(("a",))]
    assert of(played, Fenced) == [Fenced("step"), Fenced("end")]
    assert outcomes(played) == {"a": "cancelled", "b": "finished"}


def test_open_at_end_still_opens_other_gates_at_which_somebody_waits():
    story = unchecked(
        engines=[
            {"engine": 0, "rules": [{"on": "add", "do": [{"hang": "kept"}]}]},
            {"engine": 1, "rules": [{"on": "add", "do": [{"hang": "other"}, {"default": True}]}]},
        ],
        open_at_end=["kept", "a"],
        steps=[
            {"call": {"id": "a", "rank": 0}},
            {"call": {"id": "b", "rank": 1}},
            {"wait": {"event": "add", "count": 2}},
            {"fence": True},
        ],
    )
    played = perform(story)
    assert [event.gate for event in of(played, GateWasOpened)] == ["other"]
    assert outcomes(played)["b"] == "finished"


def test_operation_that_never_ends_leaves_the_run_without_its_last_fence():
    played = perform(
        "engines:\n  - rules: [{on: add, do: {hang: true}}]\nsteps:\n  - call: {id: a}\n"
    )
    assert of(played, Fenced) == []
    assert of(played, RunEnded) == [RunEnded(("a",))]
    ends = next(v for v in played.verdicts if v.invariant == "request.accepted-ends")
    assert ends.verdict != "held"


# --- engines --------------------------------------------------------------------------------


@pytest.mark.parametrize(("which", "ranks"), [("all", [4, 5, 6]), ("5", [5]), ("[6, 4]", [6, 4])])
def test_engine_step_acts_on_the_ranks_it_names_in_order(which, ranks):
    played = perform(f"""
topology: {{engines: 3, start_rank: 4, transport: bootstrapped}}
steps:
  - engine: {{engine: {which}, do: [{{stats: {{running: 1}}}}, {{stats: {{running: 2}}}}]}}
""")
    assert faults(played) == [f"engine {rank}: stats, stats" for rank in ranks]
    sent = [r.event.engine for r in played.records if kinds([r]) == ["stats"]]
    assert sent == [rank for rank in ranks for _ in range(2)]


def test_engine_step_waits_for_its_actions_unless_in_the_background():
    played = perform("""
steps:
  - engine: {engine: 0, do: [{delay_ms: 5}, {stats: {running: 1}}]}
  - expect: {count: {event: stats, equals: 1}}
  - engine: {engine: 1, background: true, do: [{delay_ms: 5}, {stats: {running: 1}}]}
  - expect: {count: {event: stats, equals: 1}}
""")
    assert statuses(played) == [(1, "held"), (3, "held")]
    # The end of the run waits for it all the same.
    assert kinds(played.records).count("stats") == 2


@pytest.mark.parametrize("late", ["input", "engine 1", "nobody"])
def test_rank_that_rejoins_is_there_when_the_step_has_ended(late):
    story = """
steps:
  - engine: {engine: 1, do: {die: close}}
  - fence: true
  - engine: {engine: 1, rejoin: true}
  - expect: {count: {event: joined, engine: 1, equals: 2}}
  - call: {id: a, rank: 1}
  - finish: a
  - expect: {op: a, outcome: finished, engine: 1}
"""
    played = perform(story, sim(Avoid(late)))
    assert faults(played) == ["engine 1: die", "engine 1 rejoins"]
    assert statuses(played) == [(3, "held"), (6, "held")]


# --- links ----------------------------------------------------------------------------------


def test_link_step_fails_sends_until_it_is_cleared():
    played = perform("""
steps:
  - link: {engine: 0, frames: add, fail: broken pipe}
  - call: {id: a, rank: 0}
  - call: {id: b, rank: 1}
  - finish: [a, b]
  - link: {engine: 0, clear: true}
  - call: {id: c, rank: 0}
  - finish: c
""")
    assert faults(played) == [
        "link engine=0 frames=add fail=broken pipe",
        "link engine=0 clear=True",
    ]
    assert outcomes(played) == {"a": "failed", "b": "finished", "c": "finished"}
    assert played.story.ops["a"].error == "Transport"


def test_link_step_holds_a_send_before_or_after_the_message_left():
    played = perform("""
steps:
  - link: {engine: 0, frames: add, hold: before}
  - link: {engine: 1, frames: add, hold_after: after}
  - call: {id: a, rank: 0}
  - call: {id: b, rank: 1}
  - fence: true
  - expect: {count: {event: add, engine: 0, equals: 0}}
  - expect: {count: {event: add, engine: 1, equals: 1}}
  - open: before
  - open: after
  - finish: [a, b]
""")
    assert statuses(played) == [(5, "held"), (6, "held")]
    assert outcomes(played) == {"a": "finished", "b": "finished"}


def test_link_faults_are_gone_before_the_gates_open_at_the_end():
    """The coordinator passes the wake-up on when healing has let the engine send it."""
    late_start = [{"hang": "g"}, {"start_wave": 0}]
    played = perform(
        unchecked(
            topology={"coordinator": "in-process", "waves": "script"},
            steps=[
                {"link": {"engine": "coordinator", "fail": "broken pipe"}},
                {"engine": {"engine": 0, "background": True, "do": late_start}},
            ],
        )
    )
    heard = [(seen.engine, seen.wave) for seen in of(played, StartWaveSeen)]
    assert heard == [(0, 0), (1, 0)]


# --- the external coordinator ---------------------------------------------------------------


def test_coordinator_steps_stop_start_and_publish():
    played = perform(
        EXTERNAL
        + """
steps:
  - coordinator: {publish: [null, 5, true]}
  - wait: {event: state-applied, where: {wave: 5, running: true}}
  - coordinator: {stop: true}
  - coordinator: {start: true}
  - wait: {event: state-applied, where: {wave: 0, running: false}}
  - coordinator: {publish_raw: ["93c007c3"]}
  - wait: {event: state-applied, where: {wave: 7, running: true}}
  - expect: {coordinator_wave: 7, coordinator_running: true}
"""
    )
    assert faults(played) == [
        "coordinator publish=[None, 5, True]",
        "coordinator stop=True",
        "coordinator start=True",
        "coordinator publish_raw=['93c007c3']",
    ]
    assert statuses(played) == [(7, "held")]


@pytest.mark.parametrize("late", ["coordinator", "front", "subscri", "connect", "nobody"])
@pytest.mark.parametrize("restart", [True, False])
def test_scripted_publish_is_never_lost_to_a_client_that_has_not_subscribed_yet(restart, late):
    again = "  - coordinator: {stop: true}\n  - coordinator: {start: true}\n" if restart else ""
    story = f"""
{EXTERNAL}
steps:
{again}  - coordinator: {{publish: [null, 3, true]}}
  - fence: true
  - expect: {{coordinator_wave: 3}}
"""
    played = perform(story, sim(Avoid(late)))
    assert [status for _, status in statuses(played)] == ["held"]


@pytest.mark.parametrize(
    ("story", "text"),
    [
        (
            "steps:\n  - coordinator: {stop: true}\n",
            "step 0 (coordinator) broke: this run has no external coordinator to act on",
        ),
        (
            EXTERNAL + "steps:\n  - coordinator: {stop: true}\n"
            "  - coordinator: {publish: [null, 1, true]}\n",
            "step 1 (coordinator) broke: RuntimeError: the coordinator is stopped",
        ),
    ],
)
def test_coordinator_step_that_cannot_be_done_is_no_verdict(story, text):
    with pytest.raises(TargetError, match=f"^{re.escape(text)}$"):
        perform(load_unchecked(story).scenario)


# --- load and shutdown ----------------------------------------------------------------------


def test_load_is_served_to_its_last_request():
    played = perform("""
steps:
  - load: {clients: 3, requests: 4}
  - load: {clients: 1, requests: 2}
  - expect: {count: {event: add, equals: 14}}
""")
    assert statuses(played) == [(2, "held")]
    first = [f"load1-{client}-{n}" for client in range(3) for n in range(4)]
    assert sorted(played.story.ops) == [*first, "load2-0-0", "load2-0-1"]
    assert set(outcomes(played).values()) == {"finished"}
    assert all(len(op.tokens) == 1 for op in played.story.ops.values())


@pytest.mark.parametrize(("until_quiet", "most"), [("false", 2), ("true", 1_000)])
def test_load_goes_on_until_the_background_is_quiet_if_told_so(until_quiet, most):
    played = perform(f"""
steps:
  - engine: {{engine: 0, background: true, do: [{{delay_ms: 20}}, {{stats: {{running: 1}}}}]}}
  - load: {{clients: 1, requests: 2, until_quiet: {until_quiet}}}
  - expect: {{count: {{event: stats, equals: 1}}}}
engines:
  - rules: [{{on: add, do: [{{delay_ms: 1}}, {{default: true}}]}}]
""")
    quiet = until_quiet == "true"
    assert statuses(played) == [(2, "held" if quiet else "violated")]
    assert (2 < len(played.story.ops) <= most) is quiet
    assert set(outcomes(played).values()) == {"finished"}


def test_coordinator_that_starts_again_does_not_wait_for_a_client_that_was_shut_down():
    played = perform(
        EXTERNAL + "steps:\n  - coordinator: {stop: true}\n  - shutdown: {}\n"
        "  - coordinator: {start: true}\n  - fence: true\n"
    )
    assert (played.broke, statuses(played), played.story.stuck) == (None, [], False)


def test_shutdown_step_ends_open_work_and_the_client_is_not_asked_again():
    played = perform(f"""
{HANG}
open_at_end: [g]
steps:
  - call: {{id: a, rank: 0}}
  - utility: {{id: u, method: is_sleeping}}
  - wait: {{event: utility, count: 2}}
  - shutdown: {{}}
  - finish: [a, u]
""")
    assert [op.error for op in played.story.ops.values()] == ["ClientClosed", "ClientClosed"]
    assert (of(played, Snapshot), of(played, HealthSample)) == ([], [])
    assert of(played, Fenced) == [Fenced("end")]


# --- expectations ---------------------------------------------------------------------------


def test_expect_step_samples_what_it_asks_for_and_nothing_else():
    played = perform("""
topology: {coordinator: in-process}
steps:
  - expect: {in_flight: 0}
  - expect: {coordinator_wave: 0}
  - expect: {healthy: true}
  - expect: {server_info: {data_parallel_size: 2}}
  - expect: {engine: 0, state: {sleeping: false}}
  - expect: {connect: ok}
  - expect: {count: {event: add, equals: 0}}
""")
    assert statuses(played) == [(step, "held") for step in range(7)]
    found = [type(event) for event in own(played)]
    sampled = [[] for _ in range(7)]
    step = -1
    for cls in found:
        if cls is StepBegan:
            step += 1
        else:
            sampled[step].append(cls)
    assert sampled == [[Snapshot], [Snapshot], [HealthSample], [], [], [], []]


def judged_at_once(expect, *, black_box):
    """Status of an expectation while an engine is about to send its counts."""
    world = sim()
    slow = "engine: 1, background: true, do: [{delay_ms: 5}, {stats: {running: 1}}]"
    spec = spec_of(f"steps:\n  - engine: {{{slow}}}\n  - expect: {expect}\n")
    found = []

    async def main():
        driver = await build(spec, world, Recorder())
        driver._black_box = black_box
        try:
            played = await driver.play()
            found.extend(result.outcome.status for result in played.results)
        finally:
            await driver.close()

    world.run(main)
    return found


@pytest.mark.parametrize(
    "expect",
    [
        "{count: {event: stats, equals: 1}}",
        "{count: {event: stats, at_least: 1}}",
        "{count: {event: stats, engine: 1, at_least: 1, at_most: 1}}",
        "{order: [{event: fault}, {event: stats}]}",
    ],
)
def test_what_a_frontend_of_its_own_process_does_may_arrive_while_it_is_judged(expect):
    assert judged_at_once(expect, black_box=True) == ["held"]
    assert judged_at_once(expect, black_box=False) == ["violated"]


def test_what_does_not_arrive_in_time_is_violated():
    for bound in ("equals: 2", "at_least: 2", "engine: 0, equals: 1"):
        expect = f"{{count: {{event: stats, {bound}}}}}"
        assert judged_at_once(expect, black_box=True) == ["violated"]


def test_nothing_is_waited_for_where_nothing_is_asked_for():
    for bound in ("equals: 0", "at_most: 0"):
        expect = f"{{count: {{event: stats, {bound}}}}}"
        assert judged_at_once(expect, black_box=True) == ["held"]


def test_expectation_about_an_operation_knows_the_engine_that_served_it():
    played = perform("""
steps:
  - call: {id: a, rank: 1}
  - call: {id: b, rank: 0}
  - finish: [a, b]
  - expect: {op: a, engine: 1}
  - expect: {op: b, engine: 1}
""")
    assert statuses(played) == [(3, "held"), (4, "violated")]
    assert played.story.results[1].outcome.seen == "b: engine = 0"


def test_violated_expectation_does_not_end_the_story():
    played = perform("""
steps:
  - expect: {in_flight: 9}
  - call: {id: a}
  - finish: a
  - expect: {op: a, outcome: finished}
""")
    assert statuses(played) == [(0, "violated"), (3, "held")]
    assert not played.story.stuck


# --- faults of ours -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        [{"call": {"id": "a"}}, {"call": {"id": "a"}}],
        [{"call": {"id": "a"}}, {"utility": {"id": "a", "method": "sleep"}}],
    ],
)
def test_operation_id_that_is_used_twice_is_refused(steps):
    with pytest.raises(TargetError, match=r"operation id 'a' is used twice"):
        perform(unchecked(steps=steps))


@pytest.mark.parametrize("step", [{"finish": "a"}, {"cancel": "a"}, {"drop": "a"}])
def test_operation_that_was_never_started_cannot_be_used(step):
    with pytest.raises(TargetError, match=r"operation 'a' was never started"):
        perform(unchecked(steps=[step]))


@pytest.mark.parametrize(
    ("utility", "text"),
    [
        ("{id: u, method: no_such}", "op u broke: the client has no method 'no_such'"),
        ("{id: u, method: _chosen}", "op u broke: the client has no method '_chosen'"),
        ("{id: u, method: sleep, args: [1, 2, 3, 4, 5]}", "op u broke: TypeError: "),
    ],
)
@pytest.mark.parametrize(
    "then",
    ["finish: u", "fence: true", "wait: {event: utility}", "expect: {op: u, outcome: pending}"],
)
def test_operation_that_breaks_is_no_outcome_but_a_failure_of_the_run(utility, text, then):
    with pytest.raises(TargetError, match=f"^{re.escape(text)}"):
        perform(load_unchecked(f"steps:\n  - utility: {utility}\n  - {then}\n").scenario)


@pytest.mark.parametrize("background", ["true", "false"])
def test_engine_action_that_breaks_is_a_failure_of_the_run(background):
    story = (
        "steps:\n"
        f"  - engine: {{engine: 0, background: {background}, do: {{output: {{tokens: [1]}}}}}}\n"
        "  - call: {id: a}\n  - finish: a\n"
    )
    with pytest.raises(TargetError, match=r"broke: ScriptError: 'output' needs a 'request'"):
        perform(story)


def test_request_of_a_client_that_never_connected_is_a_failure_of_the_run():
    story = """
connect_fails: true
topology: {config: {ready_timeout_s: 1}}
engines:
  - {engine: 1, join: {never: true}}
steps:
  - connect: true
  - call: {id: a}
  - finish: a
"""
    with pytest.raises(TargetError, match=r"^op a broke: the client is not connected$"):
        perform(story)


def test_load_of_a_client_that_never_connected_is_a_failure_of_the_run():
    story = """
connect_fails: true
topology: {config: {ready_timeout_s: 1}}
engines:
  - {engine: 1, join: {never: true}}
steps:
  - connect: true
  - load: {requests: 1}
"""
    with pytest.raises(TargetError, match=r"^step 1 \(load\) broke: the client is not connected$"):
        perform(story)


# --- naming steps ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"wait": {"event": "add"}}, "wait for 1 × add"),
        ({"wait": {"event": "add", "request": "a", "count": 3}}, "wait for 3 × add of a"),
        ({"finish": ["a", "b"]}, "finish a, b"),
        ({"fence": True}, "fence"),
        ({"open": "g"}, "open"),
    ],
)
def test_step_is_named_for_people(step, words):
    assert describe_step(Step.model_validate(step)) == words


def test_every_verb_of_the_model_is_playable():
    minimal = {
        "connect": True, "call": {"id": "x"}, "utility": {"id": "y", "method": "is_sleeping"},
        "cancel": "a", "drop": "a", "abort": ["a"], "finish": ["a"], "wait": {"event": "joined"},
        "open": "g", "engine": {"engine": 0, "do": {"stats": {}}}, "link": {"clear": True},
        "coordinator": {"publish": [None, 1, True]}, "load": {"clients": 1, "requests": 1},
        "fence": True, "shutdown": {}, "expect": {"in_flight": 0},
    }  # fmt: skip
    of_a_server = {"http", "grpc", "crowd", "sample", "signal"}
    of_a_changing_topology = {"scale"}  # tests/harness/test_elastic.py
    assert set(minimal) | of_a_server | of_a_changing_topology == set(Step.model_fields)
    topology = {"coordinator": "external", "transport": "bootstrapped", "waves": "script"}
    for verb, value in minimal.items():
        steps = [{verb: value}] if verb == "connect" else [{"call": {"id": "a"}}, {verb: value}]
        played = perform(unchecked(topology=topology, steps=steps))
        assert not played.story.stuck, verb


# --- tearing down ---------------------------------------------------------------------------


def left_behind(world):
    """Names of the tasks beside the run's own, and the sockets that are open."""
    tasks = [name for name, _ in world._loop.waiting() if name != "main"]
    return tasks, world.transport.open_sockets


STORIES = {
    "finished": "steps:\n  - call: {id: a}\n  - finish: a\n",
    "open operations": (
        HANG + "open_at_end: [g, a, u]\nsteps:\n  - call: {id: a}\n"
        "  - utility: {id: u, method: sleep}\n  - wait: {event: add}\n"
    ),
    "stuck": HANG + "open_at_end: [g]\nsteps:\n  - call: {id: a}\n  - finish: a\n",
    "external coordinator": (
        "topology: {coordinator: external, transport: bootstrapped}\n"
        "steps:\n  - call: {id: a}\n  - finish: a\n"
    ),
    "in-process coordinator": (
        "topology: {coordinator: in-process}\nsteps:\n  - call: {id: a}\n  - finish: a\n"
    ),
    "dead engine": "steps:\n  - engine: {engine: 0, do: {die: sentinel}}\n  - fence: true\n",
    "failed startup": (
        "topology: {config: {ready_timeout_s: 1}}\n"
        "engines:\n  - {engine: 1, join: {never: true}}\nsteps:\n  - fence: true\n"
    ),
    "broken operation": load_unchecked(
        "steps:\n  - utility: {id: u, method: no_such}\n  - finish: u\n"
    ).scenario,
    "busy in the background": (
        HANG + "open_at_end: [g]\nsteps:\n"
        "  - engine: {engine: 0, background: true, do: {hang: g}}\n  - fence: true\n"
    ),
    "broken in the background": (
        HANG + "open_at_end: [g, a]\nsteps:\n  - call: {id: a}\n"
        "  - engine: {engine: 0, background: true, do: {output: {tokens: [1]}}}\n"
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_run_leaves_no_task_and_no_socket(name):
    world, spec = sim(), spec_of(STORIES[name])
    found = []

    async def main():
        driver = await build(spec, world, Recorder())
        try:
            await driver.play()
        except TargetError:
            pass
        finally:
            await driver.close()
        await world.settle()
        found.append(left_behind(world))

    world.run(main)
    assert found == [([], 0)]
    assert world._loop.orphans == ()


async def turns(count):
    """Let the loop turn a few times."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        moment = loop.create_future()
        loop.call_soon(moment.set_result, None)
        await moment


def interrupt(story, *after):
    """Cancel a run after so many turns, and again after so many more; return what is left."""
    world, spec, found = sim(), spec_of(story), []

    async def run():
        driver = await build(spec, world, Recorder())
        try:
            await driver.play()
        finally:
            await driver.close()

    async def main():
        task = asyncio.get_running_loop().create_task(run(), name="victim")
        for count in after:
            await turns(count)
            task.cancel()
        await all_done([task])
        found.extend([task.cancelled(), left_behind(world)])

    world.run(main)
    return found


UNDER_WAY = (
    "topology: {coordinator: external, transport: bootstrapped}\n" + HANG + "open_at_end: [g]\n"
    "steps:\n  - load: {clients: 1, requests: 1}\n"
)
IN_STARTUP = "engines:\n  - {engine: 1, join: {never: true}}\nsteps:\n  - fence: true\n"


@pytest.mark.parametrize("story", [UNDER_WAY, IN_STARTUP], ids=["under way", "in startup"])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 150])
def test_run_cancelled_at_any_moment_leaves_no_task_and_no_socket(story, after):
    assert interrupt(story, after) == [True, ([], 0)]


@pytest.mark.parametrize("story", [UNDER_WAY, IN_STARTUP], ids=["under way", "in startup"])
@pytest.mark.parametrize("again", range(1, 16))
def test_close_stops_frontend_and_engines_although_it_is_interrupted_itself(story, again):
    """A person presses Ctrl-C twice."""
    assert interrupt(story, 60, again) == [True, ([], 0)]


def test_output_of_a_step_may_name_the_call_that_it_is_for():
    story = (
        "engines:\n  - rules: [{on: add, do: {hang: g}}]\n"
        "steps:\n  - call: {id: a, request_id: other}\n  - wait: {event: add, request: a}\n"
        "  - engine: {engine: 0, do: {output: {request: a, tokens: [97], finish: stop}}}\n"
        "  - finish: a\n  - expect: {op: a, finish: stop, tokens: 1}\n  - open: g\n"
    )
    assert statuses(perform(story)) == [(4, "held")]
