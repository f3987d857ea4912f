"""The first steps of a worker process, and as little of ours as possible before them.

Loading what a worker needs takes a good part of a second, on a busy machine several. Its parent may
be killed meanwhile, and then nobody is there who would end it: so it is tied to its parent first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection

PR_SET_PDEATHSIG = 1
"""``prctl`` option: signal to receive when the parent dies (Linux)."""


def begin(link: Connection, parent: int) -> None:
    """Main function of a worker process."""
    die_with(parent)
    from harness.cli.executors import serve

    serve(link)


def die_with(parent: int) -> None:
    """Have the system kill this process when process ``parent``, which started it, ends.

    Linux only; elsewhere an orphan ends when it next reads its pipe.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        # It ended before the call.
        os._exit(1)
