"""Child processes that do not outlive us, and the groups that they lead.

The kernel is asked to kill a child when the *thread* that started it ends (``PR_SET_PDEATHSIG``),
so children are started from the main thread. The child itself asks: a few lines of Python do
that and then become the program; a ``preexec_fn`` would run between fork and exec in a process
that may hold gRPC's threads and locks. The request holds for that one process: what it starts
in turn is reached only through its group.

Source: prctl(2); the request survives execve of an ordinary binary.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

_TRAMPOLINE = """
import ctypes, os, signal, sys
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(137)
nice = int(sys.argv[2])
if nice:
    os.nice(nice)
    # Among sessions it is the group's value that counts, where the kernel groups them.
    if os.path.exists("/proc/self/autogroup"):
        with open("/proc/self/autogroup", "w") as group:
            group.write(str(nice))
os.execv(sys.argv[3], sys.argv[3:])
"""


def dying_with_us(command: Sequence[str], *, nice: int = 0) -> list[str]:
    """Return a command that becomes ``command`` and is killed when we end (Linux).

    Elsewhere it is ``command`` itself. Its first word is an absolute path. ``nice`` lowers its
    priority by so much.
    """
    if not sys.platform.startswith("linux"):
        return list(command)
    ours = [sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(os.getpid()), str(nice)]
    return [*ours, *command]


def signal_group(leader: int, number: int) -> bool:
    """Send a signal to the group of a child that leads one; whether there was anybody."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def output_of(command: Sequence[str], timeout_s: float) -> str | None:
    """Run a short command in a group of its own and return what it wrote to standard output.

    ``None``: it failed, or took longer than ``timeout_s``; nothing of the group is left.

    Raises:
        OSError: it cannot be executed.
    """
    with subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            written, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            signal_group(child.pid, signal.SIGKILL)
    return written if child.returncode == 0 else None
