"""Each subject of an expectation: what holds, what fails, and the two lines that say so."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from harness.expectations import (
    HELD,
    NOT_JUDGED,
    VIOLATED,
    Op,
    Outcome,
    View,
    describe_match,
    judge,
    subset_difference,
)
from harness.scenario.checks_steps import SUBJECTS
from harness.scenario.model import EventMatch, Expect, ProcessExpect
from harness.targets.base import Health, Metrics, ProcessUse
from harness.trace.events import Event, Record, Snapshot
from harness.trace.kinds import matches
from tests.support.traces import abort, add, wave

SHOT = Snapshot("step", ("r1", "r2"), (7,), ((0, 2), (1, 0)), 4, True)
DEAD = Health(False, "EngineCoreDead", "engine core reported fatal failure")


def view(*events: Event, ops: tuple[Op, ...] = (), **parts: Any) -> View:
    known = {op.id: op for op in ops}
    records = [Record(seq, seq, event) for seq, event in enumerate(events)]
    return View(
        ops=known,
        records=records,
        matches=lambda record, wanted: matches(record, wanted, known),
        release=Version(parts.pop("release", "0.33.0")),
        **parts,
    )


def call_op(**parts: Any) -> Op:
    return Op("a", "call", external_id="a", **parts)


def utility_op(**parts: Any) -> Op:
    return Op("u", "utility", method="is_sleeping", **parts)


# --- op -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "expect", "expected", "seen"),
    [
        (
            call_op(outcome="finished"),
            {"outcome": "failed"},
            "a: outcome = 'failed'",
            "a: outcome = 'finished'",
        ),
        (
            call_op(),
            {"outcome": "finished"},
            "a: outcome = 'finished'",
            "a: outcome = 'pending'",
        ),
        (
            call_op(outcome="failed", error="Transport", message="gone"),
            {"outcome": "finished"},
            "a: outcome = 'finished'",
            "a: outcome = 'failed' (op failed: Transport: gone)",
        ),
        (
            call_op(outcome="failed", error="Transport", message="gone"),
            {"error": "EngineCoreDead"},
            "a: error = 'EngineCoreDead'",
            "a: error = 'Transport' (op failed: Transport: gone)",
        ),
        (
            call_op(outcome="failed", error="Transport", message="gone"),
            {"message": "broken pipe"},
            "a: message = '… broken pipe …'",
            "a: message = 'gone' (op failed: Transport: gone)",
        ),
        (call_op(tokens=[1, 2]), {"tokens": 3}, "a: tokens = 3", "a: tokens = 2"),
        (
            call_op(finish="length"),
            {"finish": "abort"},
            "a: finish = 'abort'",
            "a: finish = 'length'",
        ),
        (
            call_op(kv_transfer_params={"block": 1}),
            {"kv_transfer_params": {"block": 2}},
            "a: kv_transfer_params = {'block': 2}",
            "a: kv_transfer_params = {'block': 1}",
        ),
        (
            call_op(),
            {"kv_transfer_params": {"block": 2}},
            "a: kv_transfer_params = {'block': 2}",
            "a: kv_transfer_params = None",
        ),
        (call_op(engine=1), {"engine": 0}, "a: engine = 0", "a: engine = 1"),
        (call_op(), {"engine": 0}, "a: engine = 0", "a: engine = None"),
        (
            call_op(outcome="finished", finish="stop", engine=0),
            {"outcome": "finished", "finish": "length", "engine": 1},
            "a: finish = 'length', engine = 1",
            "a: finish = 'stop', engine = 0",
        ),
        (utility_op(value=True), {"value": False}, "u: value = False", "u: value = True"),
        (utility_op(value=True), {"value": 1}, "u: value = 1", "u: value = True"),
        (utility_op(value=False), {"value": None}, "u: value = None", "u: value = False"),
        (
            utility_op(value=[1, 0]),
            {"value": [True, False]},
            "u: value = [True, False]",
            "u: value = [1, 0]",
        ),
    ],
)
def test_op_that_is_otherwise_is_violated_and_shows_only_what_differs(op, expect, expected, seen):
    outcome = judge(Expect(op=op.id, **expect), view(ops=(op,)))
    assert outcome == Outcome(VIOLATED, expected, seen)


def test_op_as_expected_holds_and_shows_every_part():
    op = call_op(
        outcome="failed", finish=None, error="Transport", message="a broken pipe", tokens=[5, 6]
    )
    expect = Expect(op="a", outcome="failed", error="Transport", message="broken", tokens=2)
    line = "a: outcome = 'failed', error = 'Transport', tokens = 2, message = '… broken …'"
    assert judge(expect, view(ops=(op,))) == Outcome(HELD, line, line)


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "text", [1, [True]], {"a": [None]}])
def test_op_value_that_is_equal_holds(value):
    assert judge(Expect(op="u", value=value), view(ops=(utility_op(value=value),))).status == HELD


def test_op_extra_keys_of_kv_transfer_params_do_not_count():
    op = call_op(kv_transfer_params={"block": {"id": 1, "more": 2}, "other": 3})
    expect = Expect(op="a", kv_transfer_params={"block": {"id": 1}})
    assert judge(expect, view(ops=(op,))).status == HELD


def test_op_that_was_never_started_is_violated():
    outcome = judge(Expect(op="b", outcome="finished"), view(ops=(call_op(),)))
    assert outcome == Outcome(VIOLATED, "op b was started", "it never was")


@pytest.mark.parametrize(
    ("wanted", "seen", "differs"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {}, True),
        ({"a": None}, {}, True),
        ({"a": {"b": [1]}}, {"a": {"b": [1], "c": 0}}, False),
        ({"a": {"b": [1]}}, {"a": {"b": [True]}}, True),
        ([1, 2], [1], True),
        ([1], [1, 2], True),
        ([{"a": 1}], [{"a": 1, "b": 2}], False),
        ([[1]], [[1.0]], True),
        ([1], (1,), True),
        ({}, None, True),
        (1, 1.0, True),
        ("1", 1, True),
    ],
)
def test_subset_difference_compares_types_and_ignores_extra_keys(wanted, seen, differs):
    assert subset_difference(wanted, seen) is differs


# --- engine state ---------------------------------------------------------------------------


def test_engine_state_holds_by_key():
    expect = Expect(engine=1, state={"sleeping": True})
    line = "engine 1: sleeping = True"
    seen = view(engine_state={"sleeping": True, "paused": False})
    assert judge(expect, seen) == Outcome(HELD, line, line)


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        ({"sleeping": False, "lora": [1]}, "engine 1: sleeping = False"),
        ({"lora": [1]}, "engine 1: sleeping = None"),
    ],
)
def test_engine_state_that_differs_or_is_absent_is_violated(state, seen):
    expect = Expect(engine=1, state={"sleeping": True, "lora": [1]})
    outcome = judge(expect, view(engine_state=state))
    assert outcome == Outcome(VIOLATED, "engine 1: sleeping = True", seen)


def test_engine_state_that_nobody_knows_is_not_judged():
    outcome = judge(Expect(engine=1, state={"sleeping": True}), view())
    assert outcome == Outcome(
        NOT_JUDGED, "engine 1: {'sleeping': True}", "the engine's state is not known"
    )


# --- count ----------------------------------------------------------------------------------

SEEN = (add(0, "r1"), abort(0, "r1"), add(1, "r2"), add(0, "r3", wave=5))


@pytest.mark.parametrize(
    ("bounds", "status", "words"),
    [
        ({"equals": 3}, HELD, "exactly 3"),
        ({"equals": 2}, VIOLATED, "exactly 2"),
        ({"equals": 4}, VIOLATED, "exactly 4"),
        ({"at_least": 3}, HELD, "at least 3"),
        ({"at_least": 4}, VIOLATED, "at least 4"),
        ({"at_most": 3}, HELD, "at most 3"),
        ({"at_most": 2}, VIOLATED, "at most 2"),
        ({"at_least": 1, "at_most": 2}, VIOLATED, "at least 1 and at most 2"),
        ({"at_least": 4, "at_most": 9}, VIOLATED, "at least 4 and at most 9"),
        ({"equals": 0}, VIOLATED, "exactly 0"),
        ({}, HELD, "at least 1"),
    ],
)
def test_count_is_compared_with_every_bound(bounds, status, words):
    outcome = judge(Expect(count={"event": "add", **bounds}), view(*SEEN))
    assert outcome == Outcome(status, f"{words} × add", "3 × add", (0, 2, 3))


def test_count_of_nothing_has_no_witness():
    outcome = judge(Expect(count={"event": "abort", "engine": 1, "at_least": 1}), view(*SEEN))
    assert outcome == Outcome(
        VIOLATED, "at least 1 × abort at engine 1", "0 × abort at engine 1", ()
    )


def test_count_shows_at_most_eight_witnesses():
    events = [wave(0, number) for number in range(20)]
    outcome = judge(Expect(count={"event": "start_wave", "equals": 1}), view(*events))
    assert outcome.witness == tuple(range(8))


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ({"event": "add"}, "add"),
        ({"event": "add", "request": "a", "engine": 0}, "add of a at engine 0"),
        ({"event": "utility", "method": "sleep"}, "utility sleep"),
        ({"event": "add", "where": {"wave": 5, "rank": None}}, "add wave=5 rank=None"),
    ],
)
def test_match_is_described_in_words(match, words):
    assert describe_match(EventMatch(**match)) == words


# --- order ----------------------------------------------------------------------------------


def order(*matches: dict[str, Any]) -> Expect:
    return Expect(order=list(matches))


ADD0, ADD1, ABORT0 = (
    {"event": "add", "engine": 0},
    {"event": "add", "engine": 1},
    {"event": "abort", "engine": 0},
)


def test_order_of_first_matches_holds_with_their_numbers():
    outcome = judge(order(ADD0, ABORT0, ADD1), view(*SEEN))
    assert outcome == Outcome(
        HELD,
        "add at engine 0 before abort at engine 0 before add at engine 1",
        "add at engine 0 #0, abort at engine 0 #1, add at engine 1 #2",
        (0, 1, 2),
    )


def test_order_that_is_reversed_is_violated():
    outcome = judge(order(ADD1, ADD0), view(*SEEN))
    assert outcome == Outcome(
        VIOLATED,
        "add at engine 1 before add at engine 0",
        "add at engine 1 #2, add at engine 0 #0",
        (0, 2),
    )


@pytest.mark.parametrize(("matches", "never"), [((ADD0, ADD1), 1), ((ADD1, ADD0), 0)])
def test_order_with_an_event_that_never_came_is_violated(matches, never):
    outcome = judge(order(*matches), view(add(0, "r1")))
    assert outcome.status == VIOLATED
    assert outcome.seen.split(", ")[never] == "add at engine 1 never"
    assert outcome.witness == (0,)


def test_order_of_an_event_with_itself_is_violated():
    assert judge(order({"event": "add"}, ADD0), view(add(0, "r1"))).status == VIOLATED


# --- registries and coordinator -------------------------------------------------------------


@pytest.mark.parametrize(
    ("expect", "seen"),
    [
        ({"pending_utility_calls": 0}, "pending_utility_calls = 1"),
        ({"in_flight": 0}, "in_flight = 2"),
        ({"coordinator_wave": 5}, "coordinator_wave = 4"),
        ({"coordinator_running": False}, "coordinator_running = True"),
        ({"coordinator_wave": 4, "coordinator_running": False}, "coordinator_running = True"),
    ],
)
def test_registry_that_differs_is_violated(expect, seen):
    outcome = judge(Expect(**expect), view(snapshot=SHOT))
    assert (outcome.status, outcome.seen) == (VIOLATED, seen)
    key = seen.partition(" ")[0]
    assert outcome.expected == f"{key} = {expect[key]!r}"


def test_registries_as_expected_hold():
    expect = Expect(pending_utility_calls=1, in_flight=2)
    line = "pending_utility_calls = 1, in_flight = 2"
    assert judge(expect, view(snapshot=SHOT)) == Outcome(HELD, line, line)


def test_coordinator_of_a_client_without_one_is_violated():
    shot = Snapshot("step", (), (), (), None, None)
    outcome = judge(Expect(coordinator_wave=0), view(snapshot=shot))
    assert outcome == Outcome(VIOLATED, "coordinator_wave = 0", "coordinator_wave = None")


def test_registries_that_cannot_be_seen_are_not_judged():
    outcome = judge(Expect(in_flight=0), view())
    assert outcome == Outcome(
        NOT_JUDGED, "{'in_flight': 0}", "the target cannot show its registries"
    )


# --- health ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expect", "health", "expected", "seen"),
    [
        ({"healthy": True}, DEAD, "healthy = True", "healthy = False"),
        ({"healthy": False}, Health(True), "healthy = False", "healthy = True"),
        (
            {"healthy": False, "health_error": "Decode"},
            DEAD,
            "health error = 'Decode'",
            "health error = 'EngineCoreDead'",
        ),
        (
            {"health_error": "Decode"},
            Health(True),
            "health error = 'Decode'",
            "health error = None",
        ),
        (
            {"healthy": False, "message": "out of memory"},
            DEAD,
            "message = '… out of memory …'",
            "message = 'engine core reported fatal failure'",
        ),
    ],
)
def test_health_that_differs_is_violated(expect, health, expected, seen):
    assert judge(Expect(**expect), view(health=health)) == Outcome(VIOLATED, expected, seen)


def test_health_with_its_error_and_message_holds():
    expect = Expect(healthy=False, health_error="EngineCoreDead", message="fatal failure")
    assert judge(expect, view(health=DEAD)).status == HELD
    assert judge(Expect(healthy=True), view(health=Health(True))).status == HELD


@pytest.mark.parametrize(
    ("expect", "health", "seen"),
    [
        ({"healthy": True}, None, "the target's health is not known"),
        (
            {"healthy": False, "health_error": "Decode"},
            Health(False),
            "the target does not say which error it was",
        ),
        (
            {"healthy": False, "message": "x"},
            Health(False),
            "the target does not say which error it was",
        ),
    ],
)
def test_health_that_the_target_does_not_tell_is_not_judged(expect, health, seen):
    outcome = judge(Expect(**expect), view(health=health))
    assert (outcome.status, outcome.seen) == (NOT_JUDGED, seen)


def test_health_without_an_error_is_judged_where_none_is_asked_for():
    assert judge(Expect(healthy=False), view(health=Health(False))).status == HELD


# --- server_info ----------------------------------------------------------------------------


def test_server_info_is_compared_by_key():
    info = {"data_parallel_size": 4, "world_size": 8}
    expect = Expect(server_info={"data_parallel_size": 4})
    assert judge(expect, view(server_info=info)).status == HELD
    outcome = judge(expect, view(server_info={"data_parallel_size": 2}))
    assert outcome == Outcome(VIOLATED, "data_parallel_size = 4", "data_parallel_size = 2")
    missing = judge(expect, view(server_info={}))
    assert missing == Outcome(VIOLATED, "data_parallel_size = 4", "data_parallel_size = None")


def test_server_info_that_the_target_does_not_tell_is_not_judged():
    outcome = judge(Expect(server_info={"x": 1}), view())
    assert outcome == Outcome(NOT_JUDGED, "{'x': 1}", "the target does not say")


# --- connect --------------------------------------------------------------------------------

FAILED = ("HandshakeTimeout", "timed out while waiting for HELLO")


@pytest.mark.parametrize(
    ("expect", "result", "expected", "seen"),
    [
        (
            {"connect": "ok"},
            FAILED,
            "connect = 'ok'",
            "connect = 'failed' (HandshakeTimeout: timed out while waiting for HELLO)",
        ),
        ({"connect": "failed"}, (None, ""), "connect = 'failed'", "connect = 'ok'"),
        ({"connect": "ok"}, None, "connect: ok", "connect: still pending"),
        ({"connect": "failed"}, None, "connect: failed", "connect: still pending"),
        (
            {"connect": "failed", "error": "Decode"},
            FAILED,
            "error = 'Decode'",
            "error = 'HandshakeTimeout' (HandshakeTimeout: timed out while waiting for HELLO)",
        ),
        (
            {"connect": "failed", "message": "READY"},
            FAILED,
            "message = '… READY …'",
            "message = 'timed out while waiting for HELLO' "
            "(HandshakeTimeout: timed out while waiting for HELLO)",
        ),
    ],
)
def test_connect_that_ended_otherwise_is_violated(expect, result, expected, seen):
    outcome = judge(Expect(**expect), view(connect_error=result))
    assert outcome == Outcome(VIOLATED, expected, seen)


def test_connect_as_expected_holds():
    assert judge(Expect(connect="ok"), view(connect_error=(None, ""))).status == HELD
    expect = Expect(connect="failed", error="HandshakeTimeout", message="HELLO")
    assert judge(expect, view(connect_error=FAILED)).status == HELD


# --- a real frontend's process and answers --------------------------------------------------

GROWN = {"use": ProcessUse(11 << 20, 8, 1), "samples": {"s": ProcessUse(1 << 20, 6, 1)}}


SERVED = Metrics({"vllm:prompt_tokens_total": 3.0}, frozenset({"vllm:prompt_tokens", "plain"}))


def test_sample_that_is_missing_from_a_declared_family_is_zero():
    assert judge(Expect(metrics={"plain": 0}), view(metrics=SERVED)).status == HELD
    assert judge(Expect(metrics={"plain": 1}), view(metrics=SERVED)).status == VIOLATED
    assert judge(Expect(metrics={"plain": 0}), view()).status == NOT_JUDGED


@pytest.mark.parametrize("name", ["vllm:corrupted_requests_total", "nobodys"])
def test_sample_of_a_family_that_is_not_served_is_violated_and_never_zero(name):
    outcome = judge(Expect(metrics={name: 0}), view(metrics=SERVED))
    family = name.removesuffix("_total")
    seen = f"{name} = 'metric {family} is not served'"
    assert outcome == Outcome(VIOLATED, f"{name} = 0.0", seen)


def test_sample_of_a_family_that_a_release_does_not_have_yet_is_not_judged():
    wanted = {"vllm:corrupted_requests_total": 0, "vllm:prompt_tokens_total": 3}
    outcome = judge(Expect(metrics=wanted), view(metrics=SERVED, release="0.31.0"))
    assert outcome == Outcome(
        NOT_JUDGED,
        "vllm:corrupted_requests_total = 0.0",
        "metric vllm:corrupted_requests exists since 0.32.0, this is 0.31.0",
    )
    wanted["vllm:prompt_tokens_total"] = 4
    assert judge(Expect(metrics=wanted), view(metrics=SERVED, release="0.31.0")).status == VIOLATED


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"rss_mb_at_most": 10}, HELD),
        ({"rss_mb_at_most": 9.9}, VIOLATED),
        ({"descriptors_at_most": 2}, HELD),
        ({"descriptors_at_most": 1, "rss_mb_at_most": 99}, VIOLATED),
    ],
)
def test_growth_of_the_process_is_bounded(limits, status):
    outcome = judge(Expect(process=ProcessExpect(since="s", **limits)), view(**GROWN))
    assert outcome.status == status
    assert "since s" in outcome.seen


def test_process_that_cannot_be_seen_is_not_judged():
    expect = Expect(process=ProcessExpect(since="s", descriptors_at_most=1))
    assert judge(expect, view(samples=GROWN["samples"])).status == NOT_JUDGED
    assert judge(expect, view(use=GROWN["use"])).status == NOT_JUDGED


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({"status": 200, "body": {"ok": True}, "text": "hi", "body_text": "ok"}, HELD),
        ({"status": "200"}, VIOLATED),
        ({"status": 500}, VIOLATED),
        ({"body": {"ok": False}}, VIOLATED),
        ({"body": {"other": 1}}, VIOLATED),
        ({"text": "h"}, VIOLATED),
        ({"body_text": "no"}, VIOLATED),
    ],
)
def test_answer_is_compared_by_status_text_and_body(wanted, status):
    op = call_op(status=200, text="hi", body={"ok": True, "n": 1}, body_text='{"ok": true}')
    assert judge(Expect(op=op.id, **wanted), view(ops=(op,))).status == status


# --- all subjects ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "status"), [("0.27.1", NOT_JUDGED), ("0.28.0", VIOLATED), ("0.33.0", VIOLATED)]
)
def test_when_limits_the_expectation_to_its_releases(release, status):
    expect = Expect(in_flight=0, when=">=0.28")
    outcome = judge(expect, view(snapshot=SHOT, release=release))
    assert outcome.status == status
    if status == NOT_JUDGED:
        assert outcome == Outcome(NOT_JUDGED, "only >=0.28", f"release {release}")


def test_violated_part_outweighs_one_that_cannot_be_judged_and_is_shown_alone():
    expect = Expect(in_flight=0, healthy=True)
    outcome = judge(expect, view(health=DEAD))
    assert outcome == Outcome(VIOLATED, "healthy = True", "healthy = False")
    unjudged = judge(Expect(in_flight=0, healthy=False), view(health=DEAD))
    assert unjudged == Outcome(
        NOT_JUDGED, "{'in_flight': 0}", "the target cannot show its registries"
    )


VIOLATING: dict[str, tuple[dict[str, Any], View]] = {
    "op": ({"op": "a", "outcome": "finished"}, view(ops=(call_op(),))),
    "count": ({"count": {"event": "add", "equals": 1}}, view()),
    "order": ({"order": [ADD0, ADD1]}, view()),
    "snapshot": ({"in_flight": 0}, view(snapshot=SHOT)),
    "health": ({"healthy": True}, view(health=DEAD)),
    "engine": ({"engine": 0, "state": {"wave": 1}}, view(engine_state={"wave": 0})),
    "server_info": ({"server_info": {"x": 1}}, view(server_info={"x": 2})),
    "connect": ({"connect": "ok"}, view(connect_error=FAILED)),
    "coordinator": ({"coordinator_wave": 0}, view(snapshot=SHOT)),
    "metrics": ({"metrics": {"m": 1}}, view(metrics=Metrics({"m": 2.0}, frozenset({"m"})))),
    "process": (
        {"process": {"since": "s", "descriptors_at_most": 0}},
        view(use=ProcessUse(9, 4, 1), samples={"s": ProcessUse(9, 3, 1)}),
    ),
    "exit_code": ({"exit_code": 0}, view(exit_code=1)),
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_can_be_violated_and_says_both_sides(subject):
    expect, seen = VIOLATING[subject]
    outcome = judge(Expect(**expect), seen)
    assert outcome.status == VIOLATED
    assert outcome.expected
    assert outcome.seen
    assert outcome.expected != outcome.seen
