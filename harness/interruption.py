"""The signals that ask a command to end in order, and what listens to them for a while.

SIGINT, SIGTERM and SIGHUP mean the same everywhere: release everything, tell what was done so
far, end with exit code 130. SIGHUP is left alone where it is ignored already, as under ``nohup``.
"""

from __future__ import annotations

import contextlib
import signal
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


def _dispatch(signum: int, frame: FrameType | None) -> None:
    _handlers[-1](signum, frame)


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
        yield
    finally:
        for number, previous in before.items():
            # ``None``: it was not set by Python, which cannot set it again.
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
        _handlers.pop()
