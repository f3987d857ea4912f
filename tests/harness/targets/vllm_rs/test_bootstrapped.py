"""Sockets of a bootstrapped frontend: there before the process, handed over, and gone."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from client.transports.sockets import ZmqTransport
from harness.scenario.model import Topology
from harness.targets.base import TargetError
from harness.targets.vllm_rs.bootstrapped import BootstrapLaunch
from harness.targets.vllm_rs.launch import LaunchSpec


def launched(release, check, *, scheme="ipc", arguments=(), **topology):
    """Make a launch in a loop, and return what ``check`` says of it."""

    async def main():
        transport = ZmqTransport(scheme=scheme)
        try:
            given = Topology(transport="bootstrapped", **topology)
            spec = LaunchSpec(Path("/bin/vllm-rs"), release, given, tuple(arguments))
            launch = BootstrapLaunch(spec, transport)
            try:
                return check(launch)
            finally:
                launch.release()
        finally:
            transport.close()

    return asyncio.run(main())


@pytest.mark.parametrize(("release", "count"), [("0.22.0", 1), ("0.31.0", 1), ("0.32.0", 4)])
def test_whoever_connects_before_the_process_exists_waits(release, count):
    def check(launch):
        with socket.socket(socket.AF_UNIX) as early:
            early.settimeout(5)
            early.connect(launch.http.removeprefix("unix:"))
        return len(launch.inherited), launch.grpc is not None

    assert launched(release, check) == (count, count == 4)


def test_no_port_is_used_at_all():
    def check(launch):
        addresses = launch.addresses
        return [addresses.input, addresses.output, launch.http, launch.grpc]

    words = launched("0.33.0", check)
    assert all(word.startswith(("ipc://", "unix:/")) for word in words)


def test_our_copies_are_closed_once_the_process_has_its_own():
    def check(launch):
        descriptors = launch.inherited
        launch.started()
        left = []
        for descriptor in descriptors:
            try:
                os.fstat(descriptor)
            except OSError:
                continue
            left.append(descriptor)
        return left

    assert launched("0.33.0", check) == []


def test_a_transport_without_socket_files_is_refused():
    with pytest.raises(TargetError, match="is no Unix socket"):
        launched("0.33.0", lambda launch: launch, scheme="tcp")


def test_arguments_that_are_no_options_are_refused():
    with pytest.raises(TargetError, match="belongs to no option"):
        launched("0.33.0", lambda launch: launch, arguments=["stray"])


def test_sizes_come_from_the_topology_and_its_settings():
    def check(launch):
        options = launch.options
        return options.start_index, options.engines, options.data_parallel_size

    assert launched("0.33.0", check, engines=3, start_rank=2) == (2, 3, 5)
    wrong = {"engine_count": 1, "engine_start_index": 7, "data_parallel_size": 2}
    assert launched("0.33.0", check, config=wrong) == (7, 1, 2)
