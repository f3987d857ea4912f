"""The processes of one run, told from all others by a mark in their environment, which is inherited.

What is asked for here is what a person would ask ``ps``: which of them live, what each one is, and
who lost its parent. Linux only, by proc(5).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
from dataclasses import dataclass
from pathlib import Path

MARK = "WAVECHECK_CHAOS"
"""Environment variable that every process of a run has."""

CLI, WORKER, HELPER, ENGINE, FRONTEND, ADAPTER, STARTING = KINDS = (
    "cli",
    "worker",
    "helper",
    "engine",
    "frontend",
    "adapter",
    "starting",
)
"""What can be killed. ``helper``: what Python starts beside workers; ``starting``: a process that is
about to become a frontend or an adapter."""

_WORDS = (
    ("prctl(1", STARTING),
    ("multiprocessing.resource_tracker", HELPER),
    ("--multiprocessing-fork", WORKER),
    ("mock_engines.child", ENGINE),
    ("harness.adapters", ADAPTER),
    ("vllm-rs", FRONTEND),
    ("wavecheck-frontend", FRONTEND),
)


_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Process:
    """A process that lives."""

    pid: int
    parent: int
    kind: str
    command: str


class Marked:
    """All processes that have one mark.

    Attributes:
        root: process id of the one that was started first; it is ``cli``.
        seen: ids of all that were ever seen, in the order in which they were.
    """

    def __init__(self) -> None:
        self.token = f"{os.getpid()}-{next(_numbers)}"
        self.root = -1
        self.seen: list[int] = []
        self._others: set[int] = set()
        """Processes that do not have the mark."""

    @property
    def environment(self) -> dict[str, str]:
        """What the first process must have in its environment."""
        return {MARK: self.token}

    def living(self) -> list[Process]:
        """Those that live now; one that has ended and is not reaped yet does not."""
        there = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        self._others &= there
        found = []
        for pid in sorted(there - self._others):
            if pid not in self.seen:
                mark = _mark(pid)
                if mark is None:
                    continue
                if mark != self.token:
                    self._others.add(pid)
                    continue
                self.seen.append(pid)
            if (process := self._look(pid)) is not None:
                found.append(process)
        return found

    def orphans(self) -> list[Process]:
        """Those whose parent is none of them."""
        living = self.living()
        ours = {process.pid for process in living}
        return [one for one in living if one.pid != self.root and one.parent not in ours]

    def _look(self, pid: int) -> Process | None:
        try:
            behind = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return None
        if behind[0] in "ZX":
            return None
        command = " ".join(word.decode("utf-8", "replace") for word in words if word)
        return Process(pid, int(behind[1]), self._kind(pid, command), command)

    def _kind(self, pid: int, command: str) -> str:
        if pid == self.root:
            return CLI
        for word, kind in _WORDS:
            if word in command:
                return kind
        return STARTING


def _mark(pid: int) -> str | None:
    """The mark of a process, ``""`` if it has none, ``None`` if that cannot be told now."""
    with contextlib.suppress(OSError):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if variables == [b""]:
            return None  # between two programs, or ended
        start = f"{MARK}=".encode()
        return next((one[len(start) :].decode() for one in variables if one.startswith(start)), "")
    return None


def await_an_end(processes: list[Process], seconds: float) -> None:
    """Return when one of them ends, which need not be children of ours, or when time is up."""
    handles = []
    poll = select.poll()
    try:
        for one in processes:
            with contextlib.suppress(OSError):
                handles.append(os.pidfd_open(one.pid))
                poll.register(handles[-1], select.POLLIN)
        if len(handles) == len(processes):
            poll.poll(seconds * 1000)
    finally:
        for handle in handles:
            os.close(handle)


def all_end(marked: Marked, seconds: float) -> bool:
    """Whether all of them end, each within so long of the one before."""
    while living := marked.living():
        await_an_end(living, seconds)
        if len(marked.living()) == len(living):
            return False
    return True
