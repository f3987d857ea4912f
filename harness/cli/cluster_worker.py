"""What happens on a Dask worker: tasks are carried out by processes of ours beside it.

A thread of a Dask worker cannot be interrupted, runs beside others, and knows no time limits. So
each has a process, kept from task to task, which ends with the worker, however that ends. What
comes over the wire is opened there only, once it is known to be of the same wavecheck.
"""

from __future__ import annotations

import functools
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from harness.cli.executors import HUNG, Lost, serve
from harness.cli.jobs import CLEAN_UP_S
from harness.interruption import SIGNALS
from harness.matrix.identity import tool_identity
from harness.targets.vllm_rs.cache import sha256_of

READY_S = 120.0
"""Seconds that a new process gets to import everything."""
START = (
    "import sys; from harness.cli.worker_process import die_with; die_with(int(sys.argv[2])); "
    "from harness.cli.cluster_worker import main; main()"
)


class RefusedError(Exception):
    """This worker must not carry out the task; the message says why and what to do."""


def identity() -> str:
    """Version and digest of the code that is installed here now."""
    return tool_identity.__wrapped__()


def play(
    wanted: str,
    campaign: str,
    task: bytes,
    kill_after_s: float | None,
    frontend: tuple[str, str] | None,
) -> bytes:
    """Carry out a task. A Dask worker calls this in one of its threads.

    Args:
        wanted: what ``identity`` is where the task comes from.
        campaign: who it belongs to; ``interrupt`` names it.
        task: pickled.
        kill_after_s: seconds after which the process must be hung.
        frontend: path and SHA-256 of a file that must be the same here.

    Returns:
        What came of it (an ``Outcome`` or ``Lost``), pickled.

    Raises:
        RefusedError: another wavecheck is installed here, or the frontend is another file.
    """
    if frontend is not None and (why := wrong_file(*frontend)) is not None:
        raise RefusedError(why)
    helper = _HELPERS.take(wanted, campaign)
    try:
        return helper.ask(task, kill_after_s)
    finally:
        _HELPERS.give_back(helper, campaign)


def interrupt(campaign: str) -> None:
    """Interrupt what is done here for a campaign, as a person would; the caller runs this."""
    _HELPERS.interrupt(campaign)


@functools.lru_cache(maxsize=64)
def _digest(path: str, _size: int, _changed_ns: int) -> str:
    return sha256_of(Path(path))


def wrong_file(path: str, sha256: str) -> str | None:
    """Why a file here is not the one that the caller means, or ``None``: it is."""
    try:
        status = os.stat(path)
        found = _digest(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        return (
            f"{path} cannot be read on the worker {socket.gethostname()} ({error.strerror}); put "
            "the file there under the same path, or name a release, which workers fetch themselves"
        )
    if found == sha256:
        return None
    return (
        f"{path} is another file on the worker {socket.gethostname()} (sha256 {found[:12]}…, here "
        f"{sha256[:12]}…); copy the file there"
    )


# --- processes --------------------------------------------------------------------------------


class _Helper:
    """A process that carries out one task after the other."""

    def __init__(self) -> None:
        self._link, theirs = Pipe()
        # Until it is ready, an interruption waits: it would end in the middle of an import.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        try:
            self.identity = str(self._link.recv()) if self._link.poll(READY_S) else ""
        except EOFError:
            self.identity = ""

    @property
    def alive(self) -> bool:
        """Whether it can take a task."""
        return self._process.poll() is None

    def ask(self, task: bytes, kill_after_s: float | None) -> bytes:
        """Have it carry out a task."""
        try:
            self._link.send_bytes(task)
            if self._link.poll(kill_after_s):
                return self._link.recv_bytes()
            why = HUNG
        except (EOFError, OSError):
            why = f"its process ended with code {self._process.wait()}"
        self.end()
        return pickle.dumps(Lost(f"{why} (worker {socket.gethostname()})"))

    def interrupt(self) -> None:
        """Let it clean up and end; kill it if it does not."""
        self._process.send_signal(signal.SIGINT)
        timer = threading.Timer(CLEAN_UP_S, self._process.kill)
        timer.daemon = True
        timer.start()

    def end(self) -> None:
        """End it at once."""
        self._link.close()
        self._process.kill()
        self._process.wait()


class _Helpers:
    """All processes of this Dask worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Helper] = []
        self._busy: dict[str, list[_Helper]] = {}
        self._over: set[str] = set()
        """Campaigns that were interrupted."""

    def take(self, wanted: str, campaign: str) -> _Helper:
        """Return an idle process, or a new one, of the wavecheck that is wanted.

        Raises:
            RefusedError: another one is installed here, or the campaign was interrupted.
        """
        while (helper := self._take_idle()) is not None:
            if helper.alive and helper.identity == wanted:
                break
            # It ended, or the code on disk has changed since it began.
            helper.end()
        if helper is None:
            helper = _Helper()
        if helper.identity != wanted:
            seen = helper.identity or "nothing that starts"
            helper.end()
            raise RefusedError(other_tool(socket.gethostname(), wanted, seen))
        with self._lock:
            over = campaign in self._over
            if not over:
                self._busy.setdefault(campaign, []).append(helper)
        if over:
            helper.end()
            msg = "the campaign was interrupted"
            raise RefusedError(msg)
        return helper

    def _take_idle(self) -> _Helper | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, helper: _Helper, campaign: str) -> None:
        """Keep a process for the next task, if it is fit for one."""
        with self._lock:
            busy = self._busy[campaign]
            busy.remove(helper)
            if not busy:
                del self._busy[campaign]
            if helper.alive and campaign not in self._over:
                self._idle.append(helper)
                return
        helper.end()

    def interrupt(self, campaign: str) -> None:
        with self._lock:
            self._over.add(campaign)
            for helper in self._busy.get(campaign, ()):
                helper.interrupt()


_HELPERS = _Helpers()


def other_tool(host: str, wanted: str, seen: str) -> str:
    """Say that a worker has another wavecheck than the caller."""
    return (
        f"the worker {host} has another wavecheck: {_short(seen)}, here it is {_short(wanted)}; "
        "install the same one on all machines, then restart the workers"
    )


def _short(identity: str) -> str:
    version, sign, digest = identity.partition("+")
    return f"{version}{sign}{digest[:12]}"


def main() -> None:
    """Be such a process: ``START FD PARENT``."""
    link = Connection(int(sys.argv[1]))
    link.send(tool_identity())
    serve(link)
