"""Enough file descriptors for a run on real sockets, before it begins.

libzmq ends the whole process (SIGABRT) where it finds none left for a connection, and no code of ours
can catch that. So what a run takes is asked for in advance.
"""

from __future__ import annotations

import os
import sys

from harness.scenario.model import Scenario
from harness.targets.base import TargetError

BASE = 32
"""Of the frontend, its servers' sockets and the loop, beside what each engine takes."""
EACH_RANK = 20
"""Of an engine with every socket that it may have, both ends in our process; measured: 16 to 19."""
EACH_CALLER = 2
"""Of a caller: its connection, and its place in the loop."""


def make_room(scenario: Scenario) -> None:
    """Raise our limit to what a run may take, as far as the system lets us.

    Raises:
        TargetError: that is not enough even for its engines.
    """
    if sys.platform == "win32":
        return
    import resource

    needed = needed_for(scenario)
    callers = len(scenario.steps) + sum(
        step.crowd.callers for step in scenario.steps if step.crowd is not None
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = _open_now(soft)
    wanted = used + needed + EACH_CALLER * callers
    if not _below(soft, wanted):
        return
    granted = wanted if not _below(hard, wanted) else hard
    if granted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
    if granted < used + needed:
        msg = (
            f"too few file descriptors: this run takes up to {needed} beside the {used} that are "
            f"open, and the limit is {granted}; raise it (ulimit -n {used + needed + 64})"
        )
        raise TargetError(msg)


def needed_for(scenario: Scenario) -> int:
    """How many descriptors frontends and engines take at most."""
    topology = scenario.topology
    ranks = len(topology.rank_list) + len(topology.later_list)
    return BASE + EACH_RANK * ranks * topology.frontends


def _below(limit: int, number: int) -> bool:
    """Whether a limit is lower; a negative one is none."""
    return 0 <= limit < number


def _open_now(limit: int) -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        # Not even a folder can be opened.
        return limit
