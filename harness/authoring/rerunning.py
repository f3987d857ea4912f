"""Plays in a new process, so that changed code counts; ends with us, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

import harness
from harness.targets.vllm_rs.starter import dying_with_us, signal_group
from harness.verdict import HELD

CLEAN_UP_S = 20.0
"""Seconds that a run which is told to end gets to release what it has: twice what it gives a
scenario for that."""
ROOT = Path(harness.__file__).resolve().parents[1]
"""What must be on the path of a new interpreter."""


def run_again(words: Sequence[str], *, compact: bool = False) -> int:
    """Run ``wavecheck run`` with some words, with our output, and return its exit code.

    It leads a group of its own, so that Ctrl-C reaches us alone: then it is told once to end, and
    given time to release what it has.

    Args:
        words: what follows ``run``.
        compact: leave out the lines of what held; the last line counts it.

    Raises:
        KeyboardInterrupt: interrupted; nothing of it is left.
    """
    child = subprocess.Popen(
        dying_with_us([sys.executable, "-P", "-m", "harness", "run", *words]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if compact else None,
        env=_environment(coloured=compact and sys.stdout.isatty()),
        process_group=0,
        text=True,
        errors="replace",
    )
    passing = Passing()
    try:
        for line in child.stdout or ():
            passing.take(line)
        return child.wait()
    except BaseException:
        _end(child, passing)
        raise
    finally:
        if child.stdout is not None:
            child.stdout.close()


class Passing:
    """Passes lines on, but those of what held and has no remark below it."""

    def __init__(self) -> None:
        self._kept = ""

    def take(self, line: str) -> None:
        """Take one line with its end."""
        plain = click.unstyle(line)
        if self._kept and plain.startswith(" "):
            click.echo(self._kept, nl=False, color=True)
        self._kept = line if plain.startswith(f"{HELD} ") else ""
        if not self._kept:
            click.echo(line, nl=False, color=True)


def _environment(*, coloured: bool) -> dict[str, str]:
    """Ours, with our own packages first; ``coloured``: although it writes into a pipe."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    colour = {"FORCE_COLOR": "1"} if coloured and not os.environ.get("NO_COLOR") else {}
    return {**os.environ, **colour, "PYTHONPATH": os.pathsep.join(paths)}


def _end(child: subprocess.Popen[str], passing: Passing) -> None:
    # Not SIGINT: while its interpreter still starts, that would end in a traceback.
    with suppress(ProcessLookupError):
        child.send_signal(signal.SIGTERM)
    try:
        # It says how far it came.
        told, _ = child.communicate(timeout=CLEAN_UP_S)
        for line in (told or "").splitlines(keepends=True):
            passing.take(line)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        # Too slow, or asked for a second time.
        signal_group(child.pid, signal.SIGKILL)
        child.wait()
