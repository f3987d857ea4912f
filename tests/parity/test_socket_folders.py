"""Folders of socket files: held while their owner lives, swept when it is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket as os_socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from client.transports import folders
from client.transports.folders import PREFIX, held_folder, sweep
from client.transports.sockets import ZmqTransport
from harness.targets.base import TargetError
from harness.targets.registry import KINDS, open_target
from harness.targets.request import TargetRequest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no socket files there")

OWNER = """
import asyncio, signal
from client.transports.sockets import ZmqTransport
from client.protocol.transport import SocketKind
async def main():
    transport = ZmqTransport()
    address = transport.endpoint("x")
    await transport.bind(SocketKind.PULL, address)
    print(address, flush=True)
    signal.pause()
asyncio.run(main())
"""


def short_folder() -> Path:
    """Names of sockets are bounded, so a test's own folder would not do."""
    return Path(tempfile.mkdtemp(prefix="sweep-", dir="/tmp"))


@pytest.fixture
def parent(monkeypatch):
    folder = short_folder()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    for left in folder.iterdir():
        for inner in left.iterdir():
            inner.unlink()
        left.rmdir()
    folder.rmdir()


def with_socket(parent: Path, name: str = f"{PREFIX}00000000") -> Path:
    folder = parent / name
    folder.mkdir(mode=0o700)
    with os_socket.socket(os_socket.AF_UNIX) as sock:
        sock.bind(str(folder / "s"))
    return folder


@pytest.mark.zmq
def test_folder_of_a_killed_owner_is_swept_and_that_of_a_living_one_is_not(parent):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(parent)},
        cwd=Path(__file__).parents[2],
    ) as owner:
        assert owner.stdout is not None
        try:
            file = Path(owner.stdout.readline().strip().removeprefix("ipc://"))
            assert (sweep([parent]), file.exists()) == (0, True)
        finally:
            owner.send_signal(signal.SIGKILL)
    assert file.exists()
    assert (sweep([parent]), list(parent.iterdir())) == (1, [])


@pytest.mark.zmq
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sim"])
def test_opening_a_target_with_real_sockets_sweeps(kind, parent):
    left = with_socket(parent)
    open_target(TargetRequest("sim"))
    assert left.exists()
    with contextlib.suppress(ValueError, TargetError):
        # Whether it can be had here does not matter.
        open_target(TargetRequest(kind, frontend="nothing", adapter="nothing"))
    assert not left.exists()


@pytest.mark.zmq
def test_folder_of_a_closed_transport_is_gone_and_its_hold_given_back(parent):
    transport = ZmqTransport()
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    transport.endpoint("x")
    assert (len(list(parent.iterdir())), sweep([parent])) == (1, 0)
    transport.close()
    assert list(parent.iterdir()) == []
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) <= before


def test_what_is_not_ours_is_left_alone(parent):
    with_socket(parent, "wavecheck-out")
    file = with_socket(parent) / "notes.txt"
    file.write_text("mine")
    (parent / f"{PREFIX}file").mkdir()
    (parent / f"{PREFIX}file" / "results").write_text("")
    target = with_socket(parent, "elsewhere")
    link = parent / f"{PREFIX}link"
    link.symlink_to(target)
    assert sweep([parent]) == 0
    assert (file.exists(), (file.parent / "s").exists(), (target / "s").exists()) == (True,) * 3
    link.unlink()


def test_folder_that_a_sweep_takes_before_it_is_locked_is_made_anew(parent, monkeypatch):
    real, made = tempfile.mkdtemp, []

    def swept_at_once(**words):
        made.append(real(**words))
        if len(made) == 1:
            assert sweep([parent]) == 1
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_at_once)
    folder, hold = held_folder(parent)
    assert str(folder) == made[1]
    assert sweep([parent]) == 0
    os.close(hold)
    assert sweep([parent]) == 1


def test_folder_that_a_sweep_has_locked_first_is_left_to_it(parent, monkeypatch):
    real, rivals = folders._lock, []

    def locked_by_another(hold):
        if not rivals:
            (folder,) = parent.iterdir()
            rivals.append(os.open(folder, os.O_RDONLY))
            assert real(rivals[0]) is True
        return real(hold)

    monkeypatch.setattr(folders, "_lock", locked_by_another)
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    folder, hold = held_folder(parent)
    assert len(list(parent.iterdir())) == 2  # the other one is the sweep's to remove
    os.close(rivals[0])
    assert sweep([parent]) == 1
    assert list(parent.iterdir()) == [folder]
    os.close(hold)
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) == before


def test_file_system_without_locks_has_folders_that_are_never_swept(parent, monkeypatch):
    def no_locks(*_args):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(folders.fcntl, "flock", no_locks)
    folder, hold = held_folder(parent)
    os.close(hold)
    assert sweep([parent]) == 0
    assert folder.exists()


def test_folder_into_which_somebody_writes_during_the_sweep_is_left(parent, monkeypatch):
    left = with_socket(parent)
    real = os.unlink

    def and_another(name, **words):
        real(name, **words)
        (left / "late").write_text("")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", and_another)
        assert sweep([parent]) == 0
    assert (left / "late").exists()
