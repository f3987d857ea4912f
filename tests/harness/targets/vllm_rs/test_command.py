"""Command lines of both modes, by release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.targets.vllm_rs.command import (
    BootstrapOptions,
    bootstrap_command,
    json_arguments,
    process_environment,
)

BINARY = Path("/bin/vllm-rs")
MODEL = Path("/models/dense")


def options(**changes):
    given = {
        "model": MODEL,
        "engines": 2,
        "http": 7,
        "input": "ipc://in",
        "output": "ipc://out",
        "start_index": 4,
        "grpc": 9,
        "coordinator": "ipc://front",
        "data_parallel_size": 8,
    }
    return BootstrapOptions(**{**given, **changes})


def flags(command):
    """Return the options of a command by name, without the binary and the word ``frontend``."""
    return dict(zip(command[2::2], command[3::2], strict=True))


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("0.22.0", {"--input-address", "--output-address"}),
        ("0.24.0", {"--input-address", "--output-address", "--engine-start-index"}),
        (
            "0.28.0",
            {"--input-address", "--output-address", "--engine-start-index", "--data-parallel-size"},
        ),
        (
            "0.32.0",
            {
                *("--input-listener-fd", "--output-listener-fd", "--grpc-listen-fd"),
                *("--engine-start-index", "--data-parallel-size"),
            },
        ),
    ],
)
def test_each_release_gets_the_options_that_it_knows(release, expected):
    command = bootstrap_command(BINARY, release, options())
    assert command[:2] == [str(BINARY), "frontend"]
    always = {"--listen-fd", "--coordinator-address", "--engine-count", "--args-json"}
    assert set(flags(command)) == expected | always


def test_values_are_those_of_the_options():
    given = flags(bootstrap_command(BINARY, "0.33.0", options(input=3, output=5)))
    assert (given["--listen-fd"], given["--grpc-listen-fd"]) == ("7", "9")
    assert (given["--input-listener-fd"], given["--output-listener-fd"]) == ("3", "5")
    assert (given["--engine-start-index"], given["--engine-count"]) == ("4", "2")
    assert given["--data-parallel-size"] == "8"
    assert given["--coordinator-address"] == "ipc://front"
    assert json.loads(given["--args-json"])["model_tag"] == str(MODEL)


def test_times_are_whole_seconds_rounded_up():
    late = options(ready_timeout_s=0.5, shutdown_timeout_s=1.2)
    shared = json.loads(flags(bootstrap_command(BINARY, "0.22.0", late))["--args-json"])
    assert shared == {
        "model_tag": str(MODEL),
        "engine_ready_timeout_secs": 1,
        "shutdown_timeout": 2,
    }


def test_arguments_of_serve_become_keys_and_win_over_ours():
    words = [
        "--enable-scale-out",
        "--max-model-len",
        "32",
        "--served-model-name=x",
        "--model-tag=y",
    ]
    shared = json.loads(flags(bootstrap_command(BINARY, "0.22.0", options(), words))["--args-json"])
    assert shared == {
        "enable_scale_out": True,
        "max_model_len": 32,
        "served_model_name": ["x"],
        "model_tag": "y",
    }


def test_an_option_with_several_values_becomes_a_list():
    words = ["--served-model-name", "a", "b", "--max-model-len", "7"]
    assert json_arguments(words) == {"served_model_name": ["a", "b"], "max_model_len": 7}


def test_a_value_without_an_option_is_refused():
    with pytest.raises(ValueError, match="'32' belongs to no option"):
        json_arguments(["32"])


def test_the_coordinator_of_the_process_is_quiet_unless_all_is_asked_for():
    quiet = process_environment(MODEL, {})["RUST_LOG"]
    assert "coordinator::inproc=info" in quiet
    assert "coordinator" not in process_environment(MODEL, {}, "all")["RUST_LOG"]


@pytest.mark.parametrize("value", ["[" * 200_000, "1" * 5_000])
def test_value_that_is_no_json_of_ours_is_passed_as_text(value):
    assert json_arguments(["--max-model-len", value]) == {"max_model_len": value}
