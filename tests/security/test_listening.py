"""Who can reach what listens: this machine alone, or a note on standard error says otherwise."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import record_cmd
from harness.cli.main import cli
from harness.loopback import exposures_of, is_loopback
from harness.recording.live import Ended
from harness.reference_frontend import server
from harness.targets.vllm_rs import target as vllm_rs_target

ROOT = Path(__file__).parents[2]

OURS = ["127.0.0.1", "127.8.9.10", "localhost", "LOCALHOST", "::1", "[::1]"]
OTHERS = [
    *("0.0.0.0", "::", "[::]", "10.0.0.7", "192.0.2.1", "fe80::1", "2001:db8::1", "::1234"),
    *("eth0", "lo", "host.example", ""),
    # Names and addresses that only begin like ours.
    *("127.0.0.1.evil.example", "127.evil.example", "localhost.evil.example", "localhostess", "*"),
]


@pytest.mark.parametrize("host", OURS)
def test_address_of_this_machine_alone_is_told_from_others(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", OTHERS)
def test_address_that_may_be_reached_from_elsewhere_is_none_of_this_machine_alone(
    host: str,
) -> None:
    assert not is_loopback(host)


# --- every option that says where something listens ------------------------------------------

Notes = Callable[[str], str]
"""What a command says on standard error when it is told to listen at a host."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> Notes:
    return PLACES[request.param](tmp_path, monkeypatch)


def _serve(option: str) -> Callable[[Path, pytest.MonkeyPatch], Notes]:
    def prepared(folder: Path, patch: pytest.MonkeyPatch) -> Notes:
        patch.setattr(server, "run", lambda _settings: 0)
        (folder / "config.json").write_text("{}", encoding="utf-8")
        return lambda host: _said("frontend", "serve", str(folder), option, host)

    return prepared


def _record(folder: Path, patch: pytest.MonkeyPatch) -> Notes:
    async def nothing(*_: object) -> Ended:
        return Ended("over")

    patch.setattr(record_cmd, "record_proxy", nothing)
    words = ["record", "--proxy", "--handshake", "127.0.0.1:9", "-o", str(folder / "r")]
    return lambda host: _said(*words, "--listen", f"{host}:29551", code=4)


def _flag(_folder: Path, _patch: pytest.MonkeyPatch) -> Notes:
    words = ["run", "requests/aborted-then-left", "--target", "vllm-rs", "--frontend", "reference"]
    return lambda host: _said(*words, f"--frontend-arg=--host={host}", code=None)


def _file(folder: Path, patch: pytest.MonkeyPatch) -> Notes:
    can = vllm_rs_target.reference_capabilities

    def as_the_binary(release: str) -> frozenset[str]:
        return can(release) | {"op.frontend-args"}

    patch.setattr(vllm_rs_target, "reference_capabilities", as_the_binary)

    def said(host: str) -> str:
        (folder / "own.yaml").write_text(
            json.dumps(
                {
                    "title": "t",
                    "promise": "p",
                    "refs": ["vllm#1"],
                    "topology": {"frontend_args": ["--data-parallel-address", host]},
                    "steps": [{"fence": True}],
                }
            ),
            encoding="utf-8",
        )
        words = ["run", str(folder / "own.yaml"), "--target", "vllm-rs", "--frontend", "reference"]
        return _said(*words, code=None)

    return said


PLACES: dict[str, Callable[[Path, pytest.MonkeyPatch], Notes]] = {
    "serve --host": _serve("--host"),
    "serve --data-parallel-address": _serve("--data-parallel-address"),
    "record --proxy --listen": _record,
    "run --frontend-arg": _flag,
    "run, frontend_args of a file": _file,
}


def _said(*words: str, code: int | None = 0) -> str:
    vllm_rs_target._tell_exposures.cache_clear()
    result = CliRunner().invoke(cli, list(words))
    assert code is None or result.exit_code == code, result.output
    return result.stderr


@pytest.mark.parametrize("notes", PLACES, indirect=True)
def test_what_listens_for_others_says_so_on_standard_error_and_else_nothing(notes: Notes) -> None:
    assert "192.0.2.1 is not the loopback interface: whoever reaches it can" in notes("192.0.2.1")
    assert "loopback" not in notes("127.0.0.1")


def test_arguments_are_understood_in_both_forms_and_a_last_one_without_a_value_too() -> None:
    assert exposures_of(["--port", "1", "--host", "127.0.0.1", "--data-parallel-address=::1"]) == []
    assert len(exposures_of(["--host=0.0.0.0", "--data-parallel-address", "eth0"])) == 2
    assert len(exposures_of(["--host"])) == 1


# --- every place that binds -------------------------------------------------------------------

BINDS = {
    "client/coordinator_process.py": "addresses that the transport makes",
    "client/startup.py": "what a client is told: by a run, the transport's; by serve, a flag",
    "client/transports/sockets.py": "socket files, or ports on 127.0.0.1; else what it is told",
    "harness/capture/recording.py": "passes on",
    "harness/doctor/machine.py": "tcp://127.0.0.1:* and a socket file, for one message",
    "harness/faults.py": "passes on",
    "harness/recording/lane.py": "beside what record --listen says",
    "harness/recording/proxy.py": "what record --listen says",
    "harness/reference_frontend/grpc_server.py": "what serve --host says",
    "harness/reference_frontend/ports.py": "what serve --host says",
    "harness/targets/vllm_py/tap.py": "passes on",
    "harness/targets/vllm_rs/bootstrapped.py": "socket files in a private folder",
    "harness/targets/vllm_rs/ports.py": "127.0.0.1, to see that a port is free",
    "mock_engines/child.py": "tcp://127.0.0.1:0",
}
"""Every module that binds a socket, and where."""


def test_each_module_that_binds_a_socket_is_known_by_where_it_does() -> None:
    """A new one belongs into the table, and into ``PLACES`` if somebody can say where."""
    found = {
        path.relative_to(ROOT).as_posix()
        for name in ("client", "mock_engines", "harness")
        for path in (ROOT / name).rglob("*.py")
        if "sim" not in path.relative_to(ROOT).parts and _binds(path)
    }
    assert found == set(BINDS)


def _binds(path: Path) -> bool:
    called = (
        node.func.attr
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    return not {"bind", "create_server", "start_server", "bind_to_random_port", "add_insecure_port"}.isdisjoint(called)  # fmt: skip
