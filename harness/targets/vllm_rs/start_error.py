"""The frontend's own startup failures, named like the client's errors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from harness.targets.vllm_rs.client_errors import classify

_LINES_SHOWN = 12


class FrontendStartError(Exception):
    """The frontend ended before it was ready, which a scenario may expect.

    Raised as a subclass whose name is the client error that the log shows (for example
    ``HandshakeTimeout``), so that one expectation fits every target.

    Attributes:
        exit_code: as the process gave it; negative = signal.
    """

    exit_code: int = 0


@cache
def _named(name: str) -> type[FrontendStartError]:
    return type(name, (FrontendStartError,), {"__doc__": f"Startup failed: {name}."})


def start_error(exit_code: int, lines: Sequence[str]) -> FrontendStartError:
    """Make the error from the exit code and the last lines of the log, oldest first."""
    shown = [line for line in lines if line.strip()][-_LINES_SHOWN:]
    text = "\n".join(shown)
    name = classify(text)
    kind = FrontendStartError if name is None else _named(name)
    error = kind(f"the frontend ended with exit code {exit_code} before it was ready:\n{text}")
    error.exit_code = exit_code
    return error
