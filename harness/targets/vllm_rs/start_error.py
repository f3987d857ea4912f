"""The frontend's own startup failures, named like the client's errors."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cache

from harness.exit_words import PANIC, ended
from harness.targets.base import StartFailed
from harness.targets.vllm_rs.client_errors import classify

_LINES_SHOWN = 12
_LINE_MAX = 400
_COMMAND_MAX = 1_000


class FrontendStartError(Exception):
    """The frontend ended before it was ready, which a scenario may expect.

    Raised as a subclass whose name is the client error that the log shows (for example
    ``HandshakeTimeout``), so that one expectation fits every target.

    Attributes:
        exit_code: as the process gave it; negative = signal.
        command: how it was started, for whoever did not expect this.
    """

    exit_code: int = 0
    command: str = ""


@cache
def _named(name: str) -> type[FrontendStartError]:
    return type(name, (FrontendStartError,), {"__doc__": f"Startup failed: {name}."})


def _last(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.strip()][-_LINES_SHOWN:]


def said(lines: Sequence[str]) -> str:
    """Show the last lines of a process that has something to tell, or that it has not."""
    shown = [line[:_LINE_MAX] for line in _last(lines)]
    return "; it said:\n" + "\n".join(shown) if shown else "; it said nothing"


def shown_command(command: Sequence[str]) -> str:
    """Show a command as a shell would take it."""
    text = shlex.join(command)
    return text if len(text) <= _COMMAND_MAX else f"{text[:_COMMAND_MAX]} ..."


def start_error(
    exit_code: int, lines: Sequence[str], command: Sequence[str], log_lines: int
) -> FrontendStartError | StartFailed:
    """Make the error of a process that ended before it was ready.

    One that has no word of a frontend to show for it (no error of the client, no line of its log,
    no panic) is none: a wrapper that failed, a library that is missing, an option of ours that it
    does not take. No promise of the protocol is about that, so no scenario may expect it.

    Args:
        exit_code: negative = signal.
        lines: the last ones of its output, oldest first.
        command: how it was started.
        log_lines: how many lines in the form of a frontend's log it wrote.
    """
    text = f"the frontend {ended(exit_code)} before it was ready{said(lines)}"
    name = classify("\n".join(_last(lines)))
    if name is None and not log_lines and exit_code != PANIC:
        msg = f"{text}\ncommand: {shown_command(command)}"
        return StartFailed(msg)
    kind = FrontendStartError if name is None else _named(name)
    error = kind(text)
    error.exit_code = exit_code
    error.command = shown_command(command)
    return error
