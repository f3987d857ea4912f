"""The time of day. Nothing is decided by it: answers, requests and log lines carry it."""

from __future__ import annotations

import time


def now() -> float:
    """Return seconds since the epoch."""
    return time.time()  # noqa: TID251 - see the module
