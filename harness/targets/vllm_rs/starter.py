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
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.targets.vllm_rs.family import Family

_LOOK_S = 0.05
"""How long one look at the output of a short command takes, before a look at the process."""

_TRAMPOLINE = """
import ctypes, os, signal, sys
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(137)
# Under nohup, or in the background of a script, some are ignored, and exec would pass that on.
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
nice = int(sys.argv[2])
if nice:
    os.nice(nice)
    # Among sessions it is the group's value that counts, where the kernel groups them.
    if os.path.exists("/proc/self/autogroup"):
        with open("/proc/self/autogroup", "w") as group:
            group.write(str(nice))
try:
    os.execv(sys.argv[3], sys.argv[3:])
except OSError as error:
    os.write(2, f"cannot execute {sys.argv[3]}: {error.strerror}\\n".encode())
    os._exit(126)
"""


def dying_with_us(command: Sequence[str], *, nice: int = 0) -> list[str]:
    """Return a command that becomes ``command`` and is killed when we end (Linux).

    It heeds every signal, also those that we ignore (``nohup``). Elsewhere it is ``command`` itself. Its first word is an absolute path. ``nice`` lowers its
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


@dataclass(frozen=True, slots=True)
class Said:
    """What a short command wrote, at most ``bytes_max`` of it.

    Attributes:
        code: exit code, negative for a signal; ``None`` if it was ended since it took too long,
            or wrote too much.
    """

    text: str
    code: int | None


def output_of(command: Sequence[str], timeout_s: float, bytes_max: int = 1 << 16) -> Said:
    """Run a short command and return what it wrote to standard output; nothing of it is left.

    It is over when the process ends, also if what it left behind holds its output.

    Raises:
        OSError: it cannot be executed.
    """
    family = Family()
    family.begin()
    child = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **family.environment},
        start_new_session=True,
    )
    try:
        written, in_time = _read(child, timeout_s, bytes_max)
    finally:
        signal_group(child.pid, signal.SIGKILL)
        child.wait()
        family.end(child.pid)
        assert child.stdout is not None
        child.stdout.close()
    text = written[:bytes_max].decode("utf-8", "replace")
    return Said(text, child.returncode if in_time else None)


def _read(child: subprocess.Popen[bytes], timeout_s: float, bytes_max: int) -> tuple[bytes, bool]:
    """Read until the child ends; whether it did so within the time and the bytes."""
    assert child.stdout is not None
    pipe = child.stdout.fileno()
    until = time.monotonic() + timeout_s  # noqa: TID251 - real time is what is waited for
    written = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(written) <= bytes_max:
            ended = child.poll() is not None
            block = b""
            if selector.get_map() and selector.select(0 if ended else _LOOK_S):
                if block := os.read(pipe, 1 << 16):
                    written += block
                else:
                    selector.unregister(pipe)
            elif not ended and not selector.get_map():
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_LOOK_S)
            if ended and not block:
                return written, True
            if time.monotonic() >= until:  # noqa: TID251
                break
    return written, False
