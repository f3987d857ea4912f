"""Names that a scenario uses exist, and make sense."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from client.deployment import Deployment
from client.protocol.profiles import NEWEST, profile_for
from harness.scenario.checks import Vocabulary
from harness.scenario.checks_values import INFO_KEYS, STATE_KEYS
from harness.scenario.loader import parse
from harness.scenario.problems import ScenarioFileError
from mock_engines.engine import MockEngine

VOCABULARY = Vocabulary(frozenset({"request.ends", "wave.never-rewinds"}))
CALL = {"call": {"id": "a"}}
UTILITY = {"utility": {"id": "u", "method": "reset_prefix_cache"}}
CLAIM = {"expect": {"op": "a", "outcome": "finished"}}


def hang(gate: Any) -> dict[str, Any]:
    return {"engine": 0, "rules": [{"on": "add", "do": [{"hang": gate}]}]}


def rule(on: str, *do: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"rules": [{"on": on, "do": list(do), **keys}]}


def problems(**keys: Any) -> list[tuple[str, str, str]]:
    """Title, expected and help of each problem of a scenario that is fine but for ``keys``."""
    data = {"title": "t", "promise": "p", "refs": ["vllm#1"], "steps": [CALL, CLAIM], **keys}
    try:
        text = yaml.safe_dump(data, sort_keys=False)
        parse(text, Path("x.yaml"), name="x", vocabulary=VOCABULARY)
    except ScenarioFileError as error:
        return [(p.title, p.expected, p.help) for p in error.problems]
    return []


def test_scenario_without_fault_has_no_problem() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"refs": ["vllm-1"]},
            ("'vllm-1' is no reference", "a URL, or vllm#N for a vLLM pull request", ""),
        ),
        ({"title": " "}, ("title is empty", "one sentence", "")),
        (
            {"profiles": "0.28"},
            (
                "'0.28' is no specifier of releases",
                "a PEP 440 specifier such as '>=0.28' or '>=0.24,<0.29'",
                "",
            ),
        ),
        (
            {"profiles": ">=0.99"},
            ("'>=0.99' fits no known release", "releases from 0.22.0 to 0.33.0", ""),
        ),
        (
            {"steps": [CALL, {"expect": {"op": "a", "outcome": "finished", "when": "new"}}]},
            (
                "'new' is no specifier of releases",
                "a PEP 440 specifier such as '>=0.28' or '>=0.24,<0.29'",
                "",
            ),
        ),
        (
            {"invariants": ["wave.never-rewind"]},
            (
                "unknown invariant 'wave.never-rewind'",
                "an id that `wavecheck list invariants` shows",
                "did you mean 'wave.never-rewinds'?",
            ),
        ),
        (
            {"topology": {"ranks": [0, 70000]}},
            (
                "rank 70000 does not fit the two-byte identity of an engine",
                "ranks from 0 to 65535",
                "",
            ),
        ),
        (
            {"topology": {"ranks": [1, 1]}},
            ("a rank stands twice in ranks", "ranks that differ", ""),
        ),
        (
            {"topology": {"ranks": [1, 2], "engines": 3}},
            (
                "engines is 3, but ranks names 2",
                "leave engines out, or name as many ranks",
                "",
            ),
        ),
        (
            {"topology": {"coordinator": "external"}},
            (
                "an external coordinator exists only beside a bootstrapped frontend",
                "transport: bootstrapped, or coordinator: in-process",
                "",
            ),
        ),
        (
            {"steps": [{"wait": {"event": "add", "engine": 7}}]},
            ("engine 7 does not exist", "one of 0, 1 (the global ranks of this topology)", ""),
        ),
        (
            {"steps": [CALL, {"cancel": "b"}]},
            ("operation 'b' was never started before this step", "a", ""),
        ),
        (
            {"steps": [CLAIM, CALL]},
            (
                "operation 'a' was never started before this step",
                "the id of an earlier call or utility step",
                "",
            ),
        ),
        (
            {"steps": [{"call": {"id": "first"}}, {"finish": ["frist"]}]},
            (
                "operation 'frist' was never started before this step",
                "first",
                "did you mean 'first'?",
            ),
        ),
        (
            {"steps": [UTILITY, {"abort": ["u"]}]},
            ("'u' is no generation", "the id of a call step", ""),
        ),
        ({"steps": [CALL, CALL]}, ("operation 'a' is started twice", "", "")),
        (
            {"steps": [CALL, {"http": {"id": "a", "path": "/"}}]},
            ("operation 'a' is started twice", "", ""),
        ),
        (
            {"steps": [{"http": {"id": "a", "path": "/", "body": {}, "text": "x"}}]},
            ("body and text exclude each other", "", ""),
        ),
        (
            {"steps": [{"http": {"id": "a", "path": "/", "body": 1, "send": "head", "behind": "x"}}]},
            ("nothing can be behind a request that is not whole", "", ""),
        ),
        (
            {"steps": [{"crowd": {"id": "c", "leave": "no", "spread_ms": 1.0}}]},
            ("only callers who leave at once spread", "leave: at-once", ""),
        ),
        (
            {
                "steps": [
                    {"sample": {"id": "before"}},
                    {"expect": {"process": {"since": "befor", "descriptors_at_most": 0}}},
                ]
            },
            ("no sample 'befor' was taken before this step", "before", "did you mean 'before'?"),
        ),
        (
            {"steps": [{"sample": {"id": "s"}}, {"expect": {"process": {"since": "s"}}}]},
            (
                "the expectation has no bound",
                "one of rss_mb_at_most, descriptors_at_most",
                "",
            ),
        ),
        (
            {"steps": [CALL], "topology": {"frontends": 2}},
            ("a handshake owner is the only frontend of its engines", "transport: bootstrapped", ""),
        ),
        (
            {"steps": [{"call": {"id": "a", "frontend": 1}}]},
            ("there is no frontend 1", "topology: {frontends: 2}, or frontend 0", ""),
        ),
        (
            {"steps": [CALL, {"wait": {"event": "aborted"}}]},
            (
                "unknown event 'aborted'",
                "one of joined, ready_gate, add, abort, utility, start_wave, unknown, output,"
                " finished-only, reply, applied, notice, stats, raw, died, stalled,"
                " resumed, idle, moved, start_wave-ignored, exchange, stuck, spin, switched and 46 more",
                "did you mean 'abort'?",
            ),
        ),
        (
            {"steps": [{"wait": {"event": "start_wave", "where": {"waves": 1}}}]},
            (
                "event 'start_wave' has no field 'waves'",
                "one of engine, wave, exclude",
                "did you mean 'wave'?",
            ),
        ),
        (
            {"steps": [{"wait": {"event": "start_wave", "method": "x"}}]},
            ("event 'start_wave' has no field 'method'", "one of engine, wave, exclude", ""),
        ),
        (
            {"steps": [CALL, {"expect": {"op": "a", "outcome": "finished", "healthy": True}}]},
            (
                "an expectation has exactly one subject, this one has op, health",
                "one of op, count, order, in_flight, pending_utility_calls, health_error, healthy,"
                " state, server_info, connect, metrics, process, exit_code, coordinator_running, coordinator_wave",
                "",
            ),
        ),
        (
            {"steps": [CALL, {"expect": {"op": "a"}}]},
            (
                "the expectation claims nothing about the operation",
                "one of body, body_text, engine, error, finish, kv_transfer_params, message, outcome, status, text, tokens, value",
                "",
            ),
        ),
        (
            {"steps": [CALL, {"expect": {"in_flight": 1, "error": "Decode"}}]},
            (
                "'error' does not go with an expectation about snapshot",
                "one of in_flight, pending_utility_calls",
                "",
            ),
        ),
        (
            {"steps": [CALL, {"expect": {"count": {"event": "add"}}}]},
            ("the count has no bound", "one of equals, at_least, at_most", ""),
        ),
        (
            {"steps": [CALL, {"open": "g"}]},
            ("nothing waits at gate 'g'", "a gate that an engine, a link or a join waits at", ""),
        ),
        (
            {"engines": [hang("g")]},
            ("gate 'g' is never opened", "a step 'open: g', or 'g' in open_at_end", ""),
        ),
        (
            {"open_at_end": ["b"]},
            ("'b' is no gate and no operation", "a", ""),
        ),
        (
            {"steps": [{"link": {"hold": "g", "fail": "x"}}], "open_at_end": ["g"]},
            (
                "a link step has exactly one fault, this one has hold, fail",
                "one of hold, hold_after, fail, clear",
                "",
            ),
        ),
        (
            {"steps": [{"engine": {"engine": 0}}]},
            ("the step tells the engine nothing", "do: [actions], or rejoin: true", ""),
        ),
        (
            {"engines": [rule("add", {"reply": 1})]},
            ("'reply' is for utility, not for 'add'", "", ""),
        ),
        (
            {"steps": [{"engine": {"do": {"default": True}}}]},
            ("'default' is for abort, add, start_wave, utility, not for 'act'", "", ""),
        ),
        (
            {"engines": [rule("start_wave", {"drop": True}, where={"waves": 3})]},
            (
                "message 'start_wave' has no field 'waves'",
                "one of engine, wave, exclude",
                "did you mean 'wave'?",
            ),
        ),
        (
            {"engines": [rule("add", {"stall": "g"})]},
            ("gate 'g' is never opened", "a step 'open: g', or 'g' in open_at_end", ""),
        ),
        (
            {"steps": [{"call": {"id": "a", "aux": ["xyz"]}}]},
            ("'xyz' is no hexadecimal text", "such as '00ff'", ""),
        ),
    ],
)  # fmt: skip
def test_one_fault_gives_one_message(keys: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert problems(**keys) == [expected]


ANY_METHOD = "a method of the engines, one that a step calls, or a pattern with *"


@pytest.mark.parametrize(
    "keys",
    [
        {"engines": [rule("utility", {"drop": True}, method="is_sleepin")]},
        {"engines": [rule("utility", {"drop": True}, method=["reset_*", "is_sleepin"])]},
        {"steps": [CALL, {"wait": {"event": "utility", "method": "is_sleepin"}}]},
        {
            "steps": [
                {"expect": {"count": {"event": "utility", "method": "is_sleepin", "equals": 0}}}
            ]
        },
    ],
)
def test_method_that_nothing_can_call_is_refused_with_the_nearest(keys: dict[str, Any]) -> None:
    title = "no engine has a utility method 'is_sleepin', and no step calls one"
    assert problems(**keys) == [(title, ANY_METHOD, "did you mean 'is_sleeping'?")]


@pytest.mark.parametrize("method", ["is_sleeping", "is_sleepin*", "own_method", "pause_generation"])
def test_method_of_an_engine_or_of_a_step_or_a_pattern_is_fine(method: str) -> None:
    steps = [{"utility": {"id": "u", "method": "own_method", "via": "raw"}}]
    assert problems(steps=steps, engines=[rule("utility", {"drop": True}, method=method)]) == []


def test_unknown_capability_suggests_the_nearest() -> None:
    ((title, _, help_text),) = problems(needs=["op.utilty"])
    assert (title, help_text) == ("unknown capability 'op.utilty'", "did you mean 'op.utility'?")


def test_misspelt_gate_is_reported_at_both_ends() -> None:
    found = problems(engines=[hang("gate-a")], steps=[CALL, {"open": "gate-b"}])
    assert [(title, help_text) for title, _, help_text in found] == [
        ("nothing waits at gate 'gate-b'", "did you mean 'gate-a'?"),
        ("gate 'gate-a' is never opened", "did you mean 'gate-b'?"),
    ]


def test_gate_that_stays_open_on_purpose_is_no_problem() -> None:
    assert problems(engines=[hang("g")], open_at_end=["g", "a"]) == []


def test_hang_without_a_gate_needs_no_opening() -> None:
    assert problems(engines=[hang(True)]) == []


def test_gate_opened_by_an_engine_counts() -> None:
    opens = {"engine": 1, "rules": [{"on": "add", "do": [{"open": "g"}]}]}
    assert problems(engines=[hang("g"), opens]) == []


def test_known_faults_are_checked() -> None:
    entry = {"invariant": "expectation", "reason": "r", "link": "vllm#2"}
    assert problems(known=[{**entry, "introduced_in": "0.22.0", "fixed_in": "0.23.0"}]) == []
    found = problems(
        known=[
            {**entry, "introduced_in": "0.25.0", "fixed_in": "0.25.0"},
            {**entry, "fixed_in": "0.34.0", "invariant": "x", "link": "x"},
            {**entry, "measured": [{"release": "0.24.0", "trials": 2, "violations": 3}]},
        ]
    )
    assert [title for title, _, _ in found] == [
        "0.25.0 is not after 0.25.0",
        "unknown invariant 'x'",
        "'x' is no reference",
        "unknown release '0.34.0'",
        "3 violations in 2 trials cannot be",
    ]


def test_impossible_topology_may_be_the_story() -> None:
    assert problems(topology={"coordinator": "external"}, connect_fails=True) == []


def test_null_is_a_value_that_can_be_expected() -> None:
    assert problems(steps=[UTILITY, {"expect": {"op": "u", "value": None}}]) == []


def test_keys_of_an_engine_s_state_are_those_that_an_engine_has() -> None:
    own = {"alive", "joined", "stalled", "rules_met", "running"}
    view = MockEngine(0, profile_for(NEWEST)).view()
    assert set(STATE_KEYS) == own | set(view)


def test_sizes_that_can_be_asked_for_are_those_that_the_client_tells() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(Deployment.server_info)))
    told = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    assert set(INFO_KEYS) == told
