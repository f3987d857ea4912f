"""Sockets, descriptors, folders and disk space of this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zmq

from client.transports.folders import PREFIX
from harness.doctor.finding import Finding
from harness.failure import OUT_DEFAULT

ANSWER_MS = 2_000
"""How long one message over loopback may take, in milliseconds; it takes less than one."""
DESCRIPTORS = 1_024
"""Open files that a run with many engines may need at once."""
ROOM_BYTES = 64 << 20
"""Free bytes that sockets, failure files and reports of a run never reach."""
_MESSAGE = b"wavecheck"


def sockets(target: str) -> Iterator[Finding]:
    """Whether messages arrive over both kinds of addresses that are used."""
    needed = target != "sim"
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        yield _socket("ipc", f"ipc://{folder}/doctor", needed)
    yield _socket("tcp", "tcp://127.0.0.1:*", needed)


def _socket(kind: str, address: str, needed: bool) -> Finding:
    error = _trouble(address)
    loopback = "let this process use the loopback interface (in a container: no `network_mode`, "
    mend = {
        "ipc": f"set TMPDIR to a folder with a short name; now it is {tempfile.gettempdir()}",
        "tcp": f"{loopback}firewall or seccomp rule that takes it away)",
    }[kind]
    return Finding(
        name=f"sockets {kind}",
        good=error is None,
        found=error or f"a message arrives over {address.partition('://')[0]}",
        needed=needed,
        used_for="every target but sim",
        mend=mend,
    )


def _trouble(address: str) -> str | None:
    """What goes wrong when one message is sent over an address, or ``None``."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        with context.socket(zmq.PULL) as pull, context.socket(zmq.PUSH) as push:
            for each in (pull, push):
                each.linger = 0
            pull.bind(address)
            push.connect(pull.getsockopt_string(zmq.LAST_ENDPOINT))
            push.send(_MESSAGE)
            if not pull.poll(ANSWER_MS):
                return f"nothing arrived over {address} within {ANSWER_MS} ms"
            return None if pull.recv() == _MESSAGE else f"something else arrived over {address}"
    except zmq.ZMQError as error:
        return f"{address}: {error.strerror}"
    finally:
        context.term()


def descriptors() -> Iterator[Finding]:
    """How many files a process may have open, where the system says."""
    try:
        import resource
    except ImportError:
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    yield Finding(
        name="open files",
        good=unlimited or soft >= DESCRIPTORS,
        found="no limit" if unlimited else f"{soft} at once; {DESCRIPTORS} are enough for all",
        needed=False,
        used_for="scenarios with many engines or callers, on real sockets",
        mend=f"ulimit -n {DESCRIPTORS}",
    )


def folders(target: str) -> Iterator[Finding]:
    """Whether what a run writes finds its place, and room."""
    yield _folder("temporary folder", Path(tempfile.gettempdir()), target != "sim", "TMPDIR")
    yield _folder("output folder", Path(OUT_DEFAULT), True, "--out")


def _folder(name: str, folder: Path, needed: bool, way_out: str) -> Finding:
    there = existing(folder)
    why = unwritable(there)
    free = shutil.disk_usage(there).free
    if why is None and free < ROOM_BYTES:
        why = f"only {megabytes(free)} are free in {there}"
    return Finding(
        name=name,
        good=why is None,
        found=why or f"{folder} can be written, {megabytes(free)} free",
        needed=needed,
        used_for="socket files" if way_out == "TMPDIR" else "failure files",
        mend=f"set {way_out} to a folder that can be written, on a disk with room"
        if way_out == "TMPDIR"
        else f"wavecheck run {way_out} DIR, with a folder that can be written",
    )


def existing(folder: Path) -> Path:
    """A folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))


def unwritable(folder: Path) -> str | None:
    """Why no file can be made in a folder, by trying; ``None``: one can."""
    if not folder.is_dir():
        return f"{folder} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"nothing can be written in {folder}: {error.strerror or error}"


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size >> 20:,} MB"
