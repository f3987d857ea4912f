"""How ``wavecheck replay --step`` walks: by keys on a terminal, else all at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.text import Text

from harness.cli.output import Output
from harness.walk import Chosen, Happened, Moment

PROMPT = "[Enter] next event, n next choice, c continue, q quit: "


def walk_through(moments: Sequence[Moment], output: Output, *, keys: TextIO | None) -> None:
    """Print choices and events.

    Args:
        moments: what there is, in order.
        output: where it goes.
        keys: where a person answers; ``None``: nobody does, and everything is printed.
    """
    left = iter(moments)
    stop: type[Moment] | None = None if keys is None else Happened
    while _print_until(left, stop, output):
        if stop is not None:
            asked = _ask(keys)
            if asked == "q":
                output.say("(the walk ends here; the run went on)")
                return
            stop = {"n": Chosen, "c": None}.get(asked, Happened)


def _print_until(left: Iterator[Moment], stop: type[Moment] | None, output: Output) -> bool:
    """Print up to the next moment of a kind; whether there was one."""
    for moment in left:
        output.say(_styled(moment))
        if stop is not None and isinstance(moment, stop):
            return True
    return False


def _styled(moment: Moment) -> Text:
    if isinstance(moment, Happened):
        return Text(moment.line)
    return Text(moment.line, "bold yellow" if moment.departs else "dim")


def _ask(keys: TextIO | None) -> str:
    """One of n, c, q, or nothing for the next event; the end of the input means q."""
    assert keys is not None
    sys.stderr.write(PROMPT)
    sys.stderr.flush()
    line = keys.readline()
    return line.strip().lower()[:1] if line else "q"


def person_at(output: Output) -> TextIO | None:
    """Where a person types, if one does and sees the text."""
    return sys.stdin if sys.stdin.isatty() and output.columns is not None else None
