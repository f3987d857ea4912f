"""What stories are about, and how often each thing is in one.

A story about everything has little of anything. So each draft has a theme, which makes some verbs
and rules likely and leaves the others possible: engines that answer a utility call differently, say,
are then as likely as callers who leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Weights = Mapping[str, int]

VERBS: Weights = {
    "call": 10,
    "utility": 8,
    "engine": 7,
    "link": 5,
    "open": 4,
    "fence": 3,
    "cancel": 3,
    "drop": 2,
    "abort": 2,
    "coordinator": 2,
    "http": 2,
    "grpc": 2,
}
"""Verbs of steps; any other has 1."""
RULES: Weights = {"add": 4, "utility": 5, "abort": 1, "start_wave": 1}
"""Messages that rules are about."""
ACTS: Weights = {
    "wave_complete": 6,
    "start_wave": 4,
    "stats": 3,
    "die": 2,
    "output": 2,
    "flood": 2,
    "stall": 1,
    "raw": 1,
    "delay_ms": 1,
    "open": 1,
    "reply_with": 1,
    "hang": 1,
}
"""What engines do out of the blue, nine times in ten; else anything."""
WAITS: Weights = {"hang": 6, "delay_ms": 1, "stall": 1}
"""How an engine waits before it does something with a message."""
ANSWERS: Mapping[str, Weights] = {
    "add": {
        "stream": 8,
        "default": 2,
        "output": 2,
        "wave_complete": 2,
        "finish_only": 1,
        "drop": 1,
        "start_wave": 1,
        "die": 1,
        "stats": 1,
        "flood": 1,
    },
    "utility": {
        "reply": 8,
        "fail": 5,
        "default": 3,
        "reply_with": 2,
        "apply": 1,
        "drop": 1,
        "die": 1,
        "wave_complete": 1,
    },
    "abort": {"default": 2, "output": 2, "drop": 1, "wave_complete": 1, "die": 1},
    "start_wave": {"default": 2, "wave_complete": 2, "drop": 1, "start_wave": 1, "stats": 1},
}
"""What an engine does with a message, by the message."""
COORDINATORS: Weights = {"none": 2, "in-process": 5, "external": 2}


@dataclass(frozen=True, slots=True)
class Theme:
    """Weights that differ from the ordinary ones."""

    verbs: Weights = field(default_factory=dict)
    rules: Weights = field(default_factory=dict)
    acts: Weights = field(default_factory=dict)
    coordinators: Weights = field(default_factory=dict)
    together: bool = False
    """Engines step together (``waves: lockstep``)."""


THEMES: Mapping[str, Theme] = {
    "everything": Theme(),
    "requests": Theme(
        verbs={"call": 16, "utility": 1, "link": 8, "drop": 4, "abort": 5, "cancel": 5},
        rules={"add": 8, "utility": 1, "abort": 3},
        acts={"output": 6, "wave_complete": 1, "start_wave": 1},
    ),
    "utilities": Theme(
        verbs={"utility": 20, "call": 2, "engine": 3, "coordinator": 0},
        rules={"utility": 12, "add": 1, "abort": 0, "start_wave": 0},
        acts={"reply_with": 3, "wave_complete": 1, "start_wave": 1},
        coordinators={"none": 5, "in-process": 2, "external": 1},
    ),
    "waves": Theme(
        verbs={"call": 10, "utility": 0, "engine": 14, "link": 6, "coordinator": 5},
        rules={"add": 5, "utility": 0, "start_wave": 3},
        coordinators={"none": 0, "in-process": 5, "external": 4},
    ),
    "ends": Theme(
        verbs={"call": 8, "utility": 6, "engine": 8, "shutdown": 4, "signal": 3},
        acts={"die": 12, "raw": 4, "stall": 3, "stats": 1, "flood": 1},
    ),
    "together": Theme(
        verbs={"call": 14, "utility": 6, "engine": 0, "link": 4, "coordinator": 0},
        rules={"add": 4, "utility": 1, "abort": 1, "start_wave": 3},
        coordinators={"none": 0, "in-process": 5, "external": 3},
        together=True,
    ),
}
"""Themes by name; one is drawn for each draft."""
