"""Lines that vLLM's Python classes log, as events with a pattern and its fields.

Source: the texts in the sources of 0.22.0 … 0.33.0.
"""

from __future__ import annotations

import re

from harness.trace.events import LogLine

OTHER = "other"
_LEVELS = {"warning": "WARN", "exception": "ERROR", "critical": "ERROR"}
_TEXT_MAX = 2000

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "stats-out-of-order",
        re.compile(
            r"Received stats for out-of-order step \((?P<wave>-?\d+), (?P<step>-?\d+)\) "
            r"from engine (?P<engine>\d+)"
        ),
    ),
    ("coordinator-subscribed", re.compile(r"All engine subscriptions received")),
    ("coordinator-scaled", re.compile(r"DPCoordinator scaled (?P<direction>up|down)")),
    (
        "coordinator-unexpected",
        re.compile(r"DP Coordinator received unexpected message (?P<where>.*)"),
    ),
    (
        "cancelled-utility-failed",
        re.compile(r"Cancelled call to utility method failed with error: (?P<error>.*)"),
    ),
)


def log_line(level: str, text: str) -> LogLine:
    """Turn one logged text into an event; what matches no pattern is ``other``."""
    name = _LEVELS.get(level, level.upper())
    for pattern, expression in PATTERNS:
        if (match := expression.match(text)) is not None:
            return LogLine(name, pattern, tuple(sorted(match.groupdict().items())), text)
    return LogLine(name, OTHER, (), text[:_TEXT_MAX])
