"""Ports are had before the engines are waited for, and stay silent until then."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from harness.reference_frontend.ports import Port, PortTaken
from harness.targets.vllm_rs.model_folder import model_folder
from harness.targets.vllm_rs.reference import reference_program

HOST = "127.0.0.1"
TIMEOUT_S = 20.0


@pytest.fixture
def taken():
    """A port on which somebody listens."""
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_held_refuses_callers_and_others_and_is_free_again_afterwards():
    held = Port(HOST, 0, "--port")
    number = held.socket.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, number), 1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, number))
    held.release()
    held.release()
    with socket.socket() as other:
        other.bind((HOST, number))


def test_one_that_is_taken_is_named_with_the_option_that_chooses_another(taken):
    with pytest.raises(PortTaken) as caught:
        Port(HOST, taken, "--grpc-port")
    assert str(caught.value) == (
        f"{HOST}:{taken} cannot be had: Address already in use (os error 98); --grpc-port chooses "
        "another"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the number of the error is that of Linux")
@pytest.mark.parametrize("option", ["--port", "--grpc-port", "--data-parallel-rpc-port"])
def test_a_taken_port_ends_the_start_at_once_though_no_engine_has_come(taken, option):
    free = {name: "0" for name in ("--port", "--grpc-port") if name != option}
    words = [word for pair in free.items() for word in pair]
    command = [str(reference_program()), "serve", str(model_folder(moe=False)), *words]
    ran = subprocess.run(
        [*command, option, str(taken)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 1
    assert f"{HOST}:{taken} cannot be had: Address already in use" in ran.stderr
    assert f"{option} chooses another" in ran.stderr
