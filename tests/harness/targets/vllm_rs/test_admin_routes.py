"""Utility methods as requests to admin routes, and their answers as results."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.protocol.profiles import RELEASES
from harness.scenario.model import UtilityStep
from harness.targets.vllm_rs.adapters import Adapters
from harness.targets.vllm_rs.admin_routes import (
    Request,
    methods,
    request_of,
    shows_value,
    unsupported,
    value_of,
)


def step(method, *args, **more):
    return UtilityStep(id="u", method=method, args=list(args), **more)


@pytest.mark.parametrize(
    ("method", "args", "request_"),
    [
        ("is_sleeping", (), Request("GET", "/is_sleeping")),
        ("sleep", (1, "abort"), Request("POST", "/sleep", (("level", "1"), ("mode", "abort")))),
        ("wake_up", (None,), Request("POST", "/wake_up")),
        (
            "wake_up",
            (["weights", "kv_cache"],),
            Request("POST", "/wake_up", (("tags", "weights"), ("tags", "kv_cache"))),
        ),
        (
            "pause_generation",
            ("wait", False),
            Request("POST", "/pause", (("mode", "wait"), ("clear_cache", "false"))),
        ),
        (
            "collective_rpc",
            ("echo", None, [1], {"a": 2}),
            Request(
                "POST",
                "/collective_rpc",
                body={"method": "echo", "args": [1], "kwargs": {"a": 2}},
            ),
        ),
        ("profile", (False,), Request("POST", "/stop_profile")),
        (
            "set_weight_version",
            ("v2",),
            Request("POST", "/update_weight_version", body={"new_version": "v2"}),
        ),
    ],
)
def test_a_method_becomes_the_request_of_its_route(method, args, request_):
    assert request_of(step(method, *args)) == request_


def test_methods_appear_with_their_release():
    assert "pause" not in methods("0.23.0")
    assert "pause" in methods("0.24.0")
    assert "add_lora" not in methods("0.22.1")
    assert len(methods("0.33.0")) == 16
    sizes = [len(methods(release)) for release in RELEASES]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("utility", "release", "words"),
    [
        (step("list_loras"), "0.33.0", "no admin route"),
        (step("pause"), "0.23.0", "exists since 0.24.0"),
        (step("pause_scheduler"), "0.33.0", "does not call"),
        (step("pause_generation"), "0.32.0", "does not call"),
        (step("is_sleeping", via="raw"), "0.33.0", "one result per engine"),
        (step("sleep", via="consensus"), "0.33.0", "no consensus route"),
        (step("wake_up", ["weights"]), "0.30.0", "takes tags since"),
        (step("sleep", timeout_s=1.0), "0.33.0", "no overall timeout"),
        (step("sleep", unencodable=True), "0.33.0", "cannot be encoded"),
    ],
)
def test_what_has_no_route_says_why(utility, release, words):
    assert words in unsupported(utility, release)


def test_what_has_a_route_is_supported_under_both_of_its_names():
    for name in ("pause", "pause_scheduler", "is_paused", "is_scheduler_paused", "collective_rpc"):
        assert unsupported(step(name), "0.32.0") is None


def test_a_result_is_read_only_from_an_answer_that_shows_it():
    assert value_of("is_sleeping", {"is_sleeping": True}, "0.22.0") is True
    assert value_of("reset_prefix_cache", {"success": False}, "0.26.0") is False
    assert not shows_value("reset_prefix_cache", "0.25.1")
    assert value_of("wake_up", {"status": "awake"}, "0.32.0") is True
    assert value_of("wake_up", {"status": "sleeping"}, "0.32.0") is False
    assert not shows_value("wake_up", "0.31.0")
    assert value_of("wake_up", None, "0.30.0") is None
    assert value_of("collective_rpc", {"results": [1, 2]}, "0.22.0") == [1, 2]
    assert value_of("sleep", {"status": "sleeping", "level": 1}, "0.33.0") is None


def test_adapters_are_loaded_by_name_and_unloaded_by_id_or_name():
    adapters = Adapters(Path("/models/lora"))
    for name in ("a", "b"):
        request = adapters.complete(request_of(step("add_lora", [name, 9, "/ignored"])))
        assert request.body == {"lora_name": name, "lora_path": "/models/lora"}
    assert adapters.complete(request_of(step("remove_lora", 2))).body == {"lora_name": "b"}
    assert adapters.complete(request_of(step("remove_lora", "a"))).body == {"lora_name": "a"}
    assert adapters.complete(request_of(step("remove_lora", 7))).body == {"lora_name": "7"}
    long = "1" * 5_000
    assert adapters.complete(request_of(step("remove_lora", long))).body == {"lora_name": long}
