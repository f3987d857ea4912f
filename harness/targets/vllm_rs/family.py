"""Ends what a process left behind, also what left its group (Linux).

Our process adopts the orphans of the frontend's family (``PR_SET_CHILD_SUBREAPER``) while it
runs, so whoever lost its parent is a child of ours and can be found, killed and reaped. Children
of ours that are none of the family's are told apart by a mark in the environment, which is
inherited, and by group and session, which a dead one still shows.

Source: prctl(2), proc(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

MARK = "WAVECHECK_FAMILY"
"""Environment variable that every descendant of a process that we start inherits."""
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform.startswith("linux")
_ROUNDS_MAX = 1_000
"""Each round ends one layer of a family: who dies leaves its own children to us."""
_DEATH_TIMEOUT_MS = 2_000
"""How long one that was killed may take to be gone."""
_GROUP, _SESSION = 2, 3
"""Places of group and session in ``/proc/PID/stat``, behind the name."""
_numbers = itertools.count(1)


class Family:
    """A process that we start, and its descendants. Elsewhere than on Linux it does nothing."""

    def __init__(self) -> None:
        """Choose a mark; nothing is started."""
        self._mark = f"{os.getpid()}-{next(_numbers)}"

    @property
    def environment(self) -> dict[str, str]:
        """What the process must have in its environment."""
        return {MARK: self._mark}

    def begin(self) -> None:
        """Adopt orphans from now on; before the process is started."""
        _adopt(on=True)

    def end(self, leader: int) -> None:
        """Kill and reap all but the leader, which is gone, or its parent's to reap.

        Args:
            leader: process id of the one that was started, which leads a session.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        for _ in range(_ROUNDS_MAX):
            orphans = [pid for pid in _children() if pid != leader and self._has(pid, leader)]
            gone = [_kill(pid) for pid in orphans]
            if not all(gone) or not gone:
                break
        _adopt(on=False)

    def _has(self, pid: int, leader: int) -> bool:
        folder = Path("/proc", str(pid))
        try:
            behind = (folder / "stat").read_text().rpartition(")")[2].split()
            if str(leader) in (behind[_GROUP], behind[_SESSION]):
                return True
            return f"{MARK}={self._mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            return False


def _adopt(*, on: bool) -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def _children() -> Iterator[int]:
    """Yield the children of this process, whichever thread started or adopted them."""
    if not _LINUX:
        return
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, listed.read_text().split())


def _kill(pid: int) -> bool:
    """Kill and reap a child of ours; whether it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        gone = bool(poll.poll(_DEATH_TIMEOUT_MS))
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return gone
    finally:
        os.close(handle)
