"""Which part plays a scenario, and what neither can play."""

from __future__ import annotations

import pytest

from client.protocol.profiles import profile_for
from harness.scenario.loader import parse
from harness.scenario.model import Known
from harness.targets.capabilities import unknown
from harness.targets.target import part_for, program_of
from harness.targets.vllm_py import client_part
from harness.targets.vllm_py.client_api import call_of, error_message, error_name, methods_of
from harness.targets.vllm_py.client_part import ClientPart
from harness.targets.vllm_py.coordinator_part import CoordinatorPart
from harness.targets.vllm_py.log_patterns import log_line
from harness.targets.vllm_py.sources import SourceTree
from harness.targets.vllm_py.target import VllmPyTarget
from harness.trace.events import LogLine
from harness.verdict import predicted

PROFILE = profile_for("0.33.0")
EXTERNAL = "{engines: 2, coordinator: external, transport: bootstrapped, waves: script}"


def scenario(steps, topology="{engines: 2}", tmp_path="x"):
    text = f"title: t\npromise: p\nrefs: [vllm#1]\ntopology: {topology}\nsteps:\n"
    text += "".join(f"  - {step}\n" for step in steps)
    return parse(text, tmp_path, name="x").scenario


@pytest.fixture
def target(tmp_path):
    file = tmp_path / "vllm/v1/engine/core_client.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "class AsyncMPClient:\n"
        "    async def is_sleeping_async(self): ...\n"
        "    async def pause_scheduler_async(self): ...\n"
        "    async def collective_rpc_async(self): ...\n"
        "class Other:\n"
        "    async def sleep_async(self): ...\n"
    )
    return VllmPyTarget(SourceTree(tmp_path, "0.33.0", None, "mine"))


def test_external_coordinator_is_vllms_with_the_reference_client_round_it(target):
    part = part_for(target, scenario(["fence: true"], EXTERNAL))
    assert isinstance(part, CoordinatorPart)
    assert (part.black_box, program_of(part)) == (False, "vllm-py")


def test_handshake_owner_is_vllms_client(target):
    part = part_for(target, scenario(["fence: true"]))
    assert isinstance(part, ClientPart)
    assert (part.black_box, program_of(part)) == (True, "vllm-py")


def test_capabilities_of_both_parts_exist(target):
    assert unknown(target.info.capabilities) == []
    assert target.info.notes == ("mine",)


@pytest.mark.parametrize(
    ("steps", "judged"),
    [
        (["coordinator: {publish: [null, 5, true]}", "fence: true"], False),
        (["expect: {count: {event: first-request, equals: 0}}"], False),
        (["expect: {count: {event: first-request, equals: 1}}"], True),
        (["engine: {engine: 0, do: {start_wave: 0}}"], True),
        (["engine: {engine: 0, do: {stats: {running: 1, path: coordinator}}}"], True),
        (["engine: {engine: 0, do: {stats: {running: 1}}}"], False),
        (["coordinator: {stop: true}"], True),
        (["wait: {event: start_wave, engine: 1}"], True),
    ],
)
def test_scenario_in_which_the_coordinator_does_nothing_is_not_judged(target, steps, judged):
    reason = target.unsupported(scenario(steps, EXTERNAL), PROFILE)
    assert (reason is None) == judged
    if not judged:
        assert "nothing to do" in reason


@pytest.mark.parametrize(
    ("steps", "fragment"),
    [
        (["utility: {id: u, method: sleep}"], "no method for sleep"),
        (["utility: {id: u, via: raw, method: x}"], "no method for via raw"),
        (["call: {id: a, rank: 7}"], "input processor"),
        (
            ["call: {id: a}", "finish: a", "expect: {op: a, engine: 0}"],
            "a rule of vLLM's own",
        ),
        (
            ["call: {id: a}", "expect: {op: a, error: DuplicateRequestId}"],
            "no error that means DuplicateRequestId",
        ),
        (
            ["utility: {id: u, method: collective_rpc, args: [x]}", "expect: {op: u, value: [1]}"],
            "first engine's results only",
        ),
    ],
)
def test_what_vllms_client_cannot_show_is_not_judged_with_a_reason(target, steps, fragment):
    assert fragment in str(target.unsupported(scenario(steps), PROFILE))


def test_method_of_a_release_is_found_by_its_newest_name(target, tmp_path):
    methods = methods_of(tmp_path)
    assert methods == {"is_sleeping_async", "pause_scheduler_async", "collective_rpc_async"}
    step = scenario(["utility: {id: u, method: pause, args: [abort, true]}"]).steps[0].utility
    assert call_of(step, methods)["method"] == "pause_scheduler_async"


def test_errors_get_the_names_and_values_of_the_other_clients():
    text = "Engines returned different is_sleeping results: [True, False]"
    assert error_name("RuntimeError", text) == "InconsistentUtilityResults"
    assert error_message("RuntimeError", text).endswith("[true, false]")
    assert error_name("RuntimeError", "other") == "RuntimeError"
    assert error_message("Exception", "None left") == "None left"
    assert error_name("EngineDeadError", "") == "EngineCoreDead"


def test_known_fault_of_one_program_predicts_nothing_for_the_other():
    known = [
        Known(invariant="a.b", reason="r", link="vllm#1"),
        Known(invariant="c.d", reason="r", link="vllm#1", target="vllm-py"),
    ]
    version = PROFILE.version
    assert predicted(known, version) == ("a.b",)
    assert predicted(known, version, "vllm-rs") == ("a.b",)
    assert predicted(known, version, "vllm-py") == ("c.d",)


def test_log_line_of_vllm_has_pattern_and_fields():
    text = "Received stats for out-of-order step (0, 1) from engine 1 (expected > (0, 2))"
    fields = (("engine", "1"), ("step", "1"), ("wave", "0"))
    assert log_line("warning", text) == LogLine("WARN", "stats-out-of-order", fields, text)
    assert log_line("info", "else") == LogLine("INFO", "other", (), "else")


def test_part_of_the_client_declares_no_coordinator():
    assert not any(name.startswith("coordinator.in") for name in client_part.CAPABILITIES)
