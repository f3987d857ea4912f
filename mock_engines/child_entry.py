"""Entry of an engine that runs as a child process: ``python -m mock_engines.child_entry FD FD PID``.

It imports next to nothing before it is tied to its parent: loading the rest takes a good part of a
second, on a busy machine several, and the parent may be killed meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Make the kernel kill this process when its parent dies (Linux).

    Elsewhere, and until it is in force, the end of the control pipe does the same.
    """
    if sys.platform == "linux":  # pragma: no branch - elsewhere the pipe has to do
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main(arguments: list[str]) -> None:
    """Run one engine.

    ``arguments``: descriptors of the pipe and of what says that events were taken; process id of
    the parent.
    """
    descriptor, taken, parent = (int(argument) for argument in arguments[:3])
    die_with(parent)
    # Ctrl-C and the end of a terminal reach the whole group; the parent decides when to end us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):  # pragma: no branch - Windows has no such signal
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from mock_engines.child import run

    run(descriptor, taken)


if __name__ == "__main__":  # pragma: no branch - nobody imports a program
    main(sys.argv[1:])
