"""The very first thing that the ``wavecheck`` script runs.

It imports nothing of ours at the top: loading the commands takes a good part of a second, and
an interruption in the meantime must not show where Python happened to be.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, which is not imported yet."""


def main() -> NoReturn:
    """Entry point of the ``wavecheck`` script."""
    signal.signal(signal.SIGINT, _leave)
    from harness.cli.main import cli

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.main()
    except KeyboardInterrupt:
        # Outside of what the commands catch, a few lines before or after them.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _leave(signal.SIGINT, None)
    finally:
        # What remains is Python's own shutdown: nothing of ours to release, nothing to show.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise AssertionError  # cli.main() exits


def _leave(_signum: int, _frame: FrameType | None) -> NoReturn:
    """End at once: nothing was started that needs to be released."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
