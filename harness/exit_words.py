"""How a process ended, in words: signals by name, and what an exit code usually means."""

from __future__ import annotations

import signal

PANIC = 101
"""Exit code of a Rust program whose main thread panicked."""
_SHELL_SIGNAL = 128
"""A shell whose command ended by signal n ends with 128 + n."""


def signal_name(number: int) -> str:
    """Return ``SIGKILL`` for 9; ``signal 99`` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_words(code: int) -> str:
    """Say an exit code as ``subprocess`` has it: ``SIGSEGV``, ``exit code 3``.

    >>> exit_words(-11), exit_words(2)
    ('SIGSEGV', 'exit code 2')
    >>> exit_words(137)
    'exit code 137 (a shell says so of SIGKILL)'
    """
    if code < 0:
        return signal_name(-code)
    hint = ""
    if code == PANIC:
        hint = " (a Rust program says so of a panic)"
    elif code > _SHELL_SIGNAL and not signal_name(code - _SHELL_SIGNAL).startswith("signal"):
        hint = f" (a shell says so of {signal_name(code - _SHELL_SIGNAL)})"
    return f"exit code {code}{hint}"


def ended(code: int) -> str:
    """Say how a process ended: ``ended by SIGKILL``, ``ended with exit code 3``."""
    return f"ended {'by' if code < 0 else 'with'} {exit_words(code)}"


def code_and_name(code: int | None) -> str:
    """Say a code as a scenario writes it, with the name of its signal: ``-9 (SIGKILL)``."""
    return f"{code} ({signal_name(-code)})" if code is not None and code < 0 else f"{code}"
