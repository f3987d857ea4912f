"""The very first thing that the ``wavecheck`` script runs.

It imports next to nothing of ours at the top: loading the commands takes a good part of a second,
and an interruption in the meantime must not show where Python happened to be.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from harness.interruption import Handler, listened

INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, which is not imported yet."""
HARNESS = 3
"""``ExitCode.HARNESS``."""
LIBRARIES = {"yaml": "pyyaml", "zmq": "pyzmq"}
"""Libraries by a module of theirs, where the names differ."""


def main() -> NoReturn:
    """Entry point of the ``wavecheck`` script."""
    _on_signals(_leave)
    _fill_closed()
    _let_stop()
    try:
        from harness.cli.main import COMMANDS, cli

        COMMANDS.ahead(sys.argv[1:])
    except ModuleNotFoundError as error:
        _lacks(error)

    try:
        _on_signals(signal.default_int_handler)
        cli.main()
    except KeyboardInterrupt:
        # Outside of what the commands catch, a few lines before or after them.
        _on_signals(_leave)
        _leave(signal.SIGINT, None)
    finally:
        # What remains is Python's own shutdown: nothing of ours to show, and whatever it still
        # has to end, ends with us.
        _on_signals(_drop)
    raise AssertionError  # cli.main() exits


def _lacks(error: ModuleNotFoundError) -> NoReturn:
    """End with what to do about a library that is not installed.

    Raises:
        ModuleNotFoundError: what is missing is a module of ours.
    """
    import importlib.metadata
    import shlex

    name = (error.name or "").partition(".")[0]
    if name in {"client", "mock_engines", "harness", ""}:
        raise error
    # Modules and libraries differ by a few letters only: `yaml` comes with `pyyaml`.
    wanted = [
        text
        for text in importlib.metadata.requires("wavecheck") or ()
        if ";" not in text and text.replace("-", "_").startswith(LIBRARIES.get(name, name))
    ]
    command = shlex.join([sys.executable, "-m", "pip", "install", *(wanted or [name])])
    sys.stderr.write(f"error: the library {name}, which this command needs, is not installed\n")
    sys.stderr.write(f"  help:      {command}\n")
    sys.exit(HARNESS)


def _fill_closed() -> None:
    """Put something in the place of standard streams that were closed before we began.

    Else the first file or socket that is opened gets the number of one, and what a child process
    prints goes there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free; those below have been looked at.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)


def _let_stop() -> None:
    """Let Ctrl-Z stop the command also while it starts a child process.

    With vfork(2) it waits in the kernel, deaf to all signals, until the child is a program of its
    own; a Ctrl-Z in between stops the child first, and both stand still until somebody continues
    the child by its id: the shell is never told that its job has stopped. With fork(2) both stop.
    """
    import subprocess

    # Python's documented switch, in spite of its name; multiprocessing heeds it as well.
    subprocess._USE_VFORK = False  # type: ignore[misc]  # noqa: SLF001


def _on_signals(handler: Handler) -> None:
    for number in listened():
        signal.signal(number, handler)


def _leave(_signum: int, _frame: FrameType | None) -> NoReturn:
    """End at once: nothing was started that needs to be released."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _drop(_signum: int, _frame: FrameType | None) -> NoReturn:
    """End at once, without a word: the command has said all it had to say."""
    os._exit(INTERRUPTED)
