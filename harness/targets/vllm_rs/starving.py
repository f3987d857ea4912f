"""One CPU for everybody, on which the frontend comes last: a busy machine, by construction.

Whoever the frontend wakes by a message then runs before the frontend goes on. So between a
message that has left and what the frontend does next lies as much time as an engine or a caller
cares to use, on a machine of any size; elsewhere that is a matter of microseconds and of luck.

Source: sched(7), sched_setaffinity(2), nice(2): a child inherits both.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LAST = 19
"""The lowest priority that a process can have (nice value)."""
_THREADS = Path("/proc/self/task")


class OneCpu:
    """Holds this process, and what it starts, to one CPU between ``begin`` and ``end``."""

    def __init__(self) -> None:
        self._before: set[int] | None = None

    def begin(self) -> None:
        """Keep all our threads to the first CPU that we may use: sockets have some of their own."""
        self._before = os.sched_getaffinity(0)
        _hold({min(self._before)})

    def end(self) -> None:
        """Use all of them again. Does nothing a second time."""
        if self._before is not None:
            _hold(self._before)
            self._before = None


def _hold(cpus: set[int]) -> None:
    for thread in _THREADS.iterdir():
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(thread.name), cpus)
