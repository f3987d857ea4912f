"""The signals that ask a command to end in order, and what listens to them for a while.

SIGINT, SIGTERM and SIGHUP mean the same everywhere: release everything, tell what was done so
far, end with exit code 130. SIGHUP is left alone where it is ignored already, as under ``nohup``.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = frozenset(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""Those of this platform."""


def listened() -> tuple[signal.Signals, ...]:
    """The signals to listen to: all but a SIGHUP that whoever started us lets us ignore.

    A shell lets a command in the background ignore SIGINT too, but somebody who sends one to it
    by its id means it; nobody means the SIGHUP of a terminal that ``nohup`` keeps away.
    """
    hangup = getattr(signal, "SIGHUP", None)
    away = hangup is not None and signal.getsignal(hangup) is signal.SIG_IGN
    return tuple(sorted(number for number in SIGNALS if not (away and number == hangup)))


_handlers: list[Handler] = []
"""Who hears the signals now is the last."""


_swallowed = False
"""Whether Python is about to tell of an error that it cannot raise."""


def _dispatch(signum: int, frame: FrameType | None) -> None:
    if _swallowed:
        _again()
    else:
        _handlers[-1](signum, frame)


def _again() -> None:
    """Deliver an interruption once more, once whoever runs now has gone on."""
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    # Of the lowest level: a callback may come while ``threading`` holds its own locks.
    _thread.start_new_thread(signal.pthread_kill, (main_thread, signal.SIGINT))


@contextlib.contextmanager
def _nothing_swallowed() -> Iterator[None]:
    """Let a ``KeyboardInterrupt`` that is raised where none can be come again, untold.

    A handler may run in a callback of a weak reference or in ``__del__``. What they raise Python
    only prints, and the command would go on.
    """
    before = sys.unraisablehook

    def told(unraisable: Any) -> None:
        global _swallowed
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        _swallowed = True
        try:
            _again()
        finally:
            _swallowed = False

    sys.unraisablehook = told
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def heard(handler: Handler) -> Iterator[None]:
    """Let the signals call ``handler`` inside, then restore what was there.

    In a thread other than the main one nothing is heard: Python delivers signals to that only.
    Within another one this only takes its place: setting the handlers of three signals anew for
    each run took three hundredths of its time.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if _handlers and signal.getsignal(signal.SIGINT) is _dispatch:
        _handlers.append(handler)
        try:
            yield
        finally:
            _handlers.pop()
        return
    before = {number: signal.getsignal(number) for number in listened()}
    _handlers.append(handler)
    try:
        for number in before:
            signal.signal(number, _dispatch)
        with _nothing_swallowed():
            yield
    finally:
        for number, previous in before.items():
            # ``None``: it was not set by Python, which cannot set it again.
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
        _handlers.pop()


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Let an interruption wait until what is made inside is whole: half of it could not be closed.

    Raises:
        KeyboardInterrupt: one came.
    """
    came: list[int] = []
    with heard(lambda number, _frame: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt
