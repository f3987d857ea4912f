"""The command line: wrong use, failed starts, and what options and environment come to."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from client.protocol.profiles import NEWEST
from harness.reference_frontend.options import is_moe, settings_of
from harness.reference_frontend.program import program
from harness.targets.vllm_rs.command import ServeOptions, process_environment, serve_command

FLAGS = {
    "release": "0.28.0",
    "served_model_name": (),
    "host": "127.0.0.1",
    "port": 1,
    "grpc_port": None,
    "data_parallel_size": 2,
    "data_parallel_address": "127.0.0.1",
    "data_parallel_rpc_port": 3,
    "engine_ready_timeout_secs": None,
    "shutdown_timeout": 0.0,
    "mutant": None,
    "profiler_config": None,
}


def run(*words):
    return CliRunner().invoke(program, words)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 257, "num_experts": 8}))
    return tmp_path


def test_version_names_the_newest_release_as_its_last_word():
    done = run("--version")
    assert done.exit_code == 0
    assert done.output.split()[-1] == NEWEST


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Missing argument 'MODEL'"),
        (("m", "--nope"), "No such option"),
        (("m", "--data-parallel-size", "0"), "0 is not in the range"),
        (("m", "--data-parallel-size-local", "2"), "this frontend starts no engines"),
        (("m", "--mutant", "nope"), "unknown mutant 'nope'"),
        (("m", "--release", "1.0"), "'1.0' is not one of"),
        (("m", "--profiler-config", "{}"), "must be a JSON object with a 'profiler'"),
        (("m", "--profiler-config", "{"), "is no JSON"),
    ],
)
def test_wrong_use_ends_with_two_and_says_what_is_wrong(words, message):
    done = run("serve", *words)
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_model_without_a_usable_configuration_ends_with_one(tmp_path, text):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    done = run("serve", str(tmp_path))
    assert done.exit_code == 1
    assert "config.json" in done.output
    assert "Errno" not in done.output


@pytest.mark.parametrize("model", ["file", "nothing", "device", "folder"])
def test_model_that_is_none_is_told_in_words_of_ours(tmp_path, model):
    (tmp_path / "file").write_text("{}")
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "config.json").symlink_to("/dev/zero")
    (tmp_path / "folder" / "config.json").mkdir(parents=True)
    done = run("serve", str(tmp_path / model))
    assert done.exit_code == 1
    assert "give a folder with a config.json" in done.output
    assert "Errno" not in done.output


def test_ready_timeout_of_the_environment_that_is_no_number_is_named(model, monkeypatch):
    monkeypatch.setenv("VLLM_ENGINE_READY_TIMEOUT_S", "soon")
    done = run("serve", str(model))
    assert (done.exit_code, done.output) == (
        1,
        "error: VLLM_ENGINE_READY_TIMEOUT_S=soon is no number of seconds\n",
    )


@pytest.mark.parametrize(
    ("config", "moe"),
    [
        ({"num_experts": 8}, True),
        ({"n_routed_experts": 1}, True),
        ({"num_experts": 0}, False),
        ({"architectures": ["SomethingMoE"]}, False),
    ],
)
def test_expert_count_above_zero_makes_a_model_moe(config, moe):
    assert is_moe(config) is moe


def test_coordinator_needs_experts_and_several_engines(model):
    two = settings_of({**FLAGS, "model": str(model)}, {})
    one = settings_of({**FLAGS, "model": str(model), "data_parallel_size": 1}, {})
    assert two.in_process_coordinator
    assert not one.in_process_coordinator


def test_environment_opens_routes_only_with_the_values_that_count(model):
    flags = {**FLAGS, "model": str(model)}
    closed = settings_of(flags, {"VLLM_SERVER_DEV_MODE": "true"})
    assert (closed.dev_mode, closed.lora_prefixes, closed.ready_timeout_s) == (False, None, 600.0)
    opened = settings_of(
        flags,
        {
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true",
            "VLLM_RUNTIME_LORA_ALLOWED_PATH_PREFIXES": "/a,/b",
            "VLLM_ENGINE_READY_TIMEOUT_S": "7",
        },
    )
    assert opened.dev_mode
    assert opened.lora_prefixes == ("/a", "/b")
    assert opened.ready_timeout_s == 7.0


@pytest.mark.parametrize("release", ["0.22.0", "0.33.0"])
def test_command_line_of_the_target_is_understood(monkeypatch, model, release):
    seen = []
    monkeypatch.setattr("harness.reference_frontend.server.run", lambda s: seen.append(s) or 0)
    for name, value in process_environment(model, {}).items():
        monkeypatch.setenv(name, value)
    options = ServeOptions(model, 2, 8001, 8002, 8003, ready_timeout_s=1.5, shutdown_timeout_s=3)
    command = serve_command(model, release, options, ("--release", release))
    done = run(*command[1:])
    assert done.exit_code == 0, done.output
    (settings,) = seen
    assert (settings.port, settings.grpc_port, settings.handshake_port) == (8001, 8002, 8003)
    assert (settings.ready_timeout_s, settings.shutdown_timeout_s) == (2.0, 3.0)
    assert settings.profile.release == release
    assert settings.dev_mode
    assert settings.profiler is (release == "0.33.0")
