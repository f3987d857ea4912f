"""Reads the one-line form of an event back: number, time, where it happened, what it says.

``harness.trace.render`` writes these lines; failure files hold them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.trace.kinds import KIND_OF
from harness.trace.render import SEEN, SENT

CALLERS, CLIENT, COORDINATOR, HARNESS = "callers", "client", "coordinator", "harness"
"""Lanes beside those of the engines."""

_LINE = re.compile(r"#([0-9]{1,18})  t=(-?[0-9]{1,15}\.[0-9]{1,15})s  (.+)", re.DOTALL)
_ENGINE = re.compile(r"engine (-?[0-9]{1,400})(:| <-| ->) (.+)", re.DOTALL)
_CALLER = re.compile(r"caller (.*?): (.+)", re.DOTALL)
_OTHER = re.compile(r"(coordinator|client|frontend|harness): (.+)", re.DOTALL)
_LANE_OF = {
    "coordinator": COORDINATOR,
    "client": CLIENT,
    "frontend": CLIENT,
    "harness": HARNESS,
}
_KINDS = {kind for kind, _ in KIND_OF.values()}
_ON_WIRE = {name: KIND_OF[cls][0] for cls, name in {**SEEN, **SENT}.items()}
_LONGEST_FIRST = sorted([*_ON_WIRE, *_KINDS], key=len, reverse=True)

_WITH_COORDINATOR = frozenset({"start_wave", "ready_gate", "notice"})
_BY_PATH = frozenset({"stats", "raw"})
_TO_FRONTEND = frozenset({"call-started", "utility-started", "request-started", "cancel"})
_TO_CALLERS = frozenset({"call-output", "call-ended", "utility-ended", "request-ended"})
_FIXED = {
    "first-request-queued": (CLIENT, COORDINATOR),
    "published": (COORDINATOR, CLIENT),
    "state-applied": (COORDINATOR, CLIENT),
    "abort-requested": (CALLERS, CLIENT),
}


def engine_lane(rank: int | str) -> str:
    """The lane of an engine."""
    return f"engine {rank}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event belongs.

    Attributes:
        source, target: lanes; equal where nothing is sent.
        kind: as scenario files name it; ``""``: it is not known.
        text: what it says, with its lane.
        said: the same without its lane.
    """

    source: str
    target: str
    kind: str
    text: str
    said: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a trace. ``time_us``: microseconds, as precise as the line."""

    seq: int
    time_us: int
    place: Place


def read_line(line: str) -> Line | None:
    """Read one line; ``None``: it is no event, such as the last words of a frontend."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    place = place_of(found[3])
    if place is None:
        return None
    return Line(int(found[1]), round(float(found[2]) * 1_000_000), place)


def place_of(text: str, known: str | None = None) -> Place | None:
    """Tell the lanes and the kind of an event from what ``render.describe`` says of it.

    Args:
        text: what it says.
        known: its kind, where that is known; names of operations may hold anything.
    """
    if found := _ENGINE.fullmatch(text):
        rank, arrow, said = found.groups()
        return _of_engine(text, rank, arrow, said, known or _kind(said))
    if found := _CALLER.fullmatch(text):
        kind = known or _kind(found[2])
        lanes = (CALLERS, CALLERS)
        if kind in _TO_FRONTEND:
            lanes = (CALLERS, CLIENT)
        elif kind in _TO_CALLERS:
            lanes = (CLIENT, CALLERS)
        return Place(*lanes, kind, text, f"{found[1]}: {found[2]}")
    if found := _OTHER.fullmatch(text):
        kind, own = known or _kind(found[2]), _LANE_OF[found[1]]
        return Place(*_FIXED.get(kind, (own, own)), kind, text, found[2])
    return None


def _of_engine(text: str, rank: str, arrow: str, said: str, kind: str) -> Place:
    own = engine_lane(rank)
    if arrow == ":":
        return Place(own, own, kind, text, said)
    other = CLIENT
    by_path = kind in _BY_PATH and " path=coordinator" in said
    if by_path or kind in _WITH_COORDINATOR:
        other = COORDINATOR
    lanes = (other, own) if arrow == " <-" else (own, other)
    return Place(*lanes, kind, text, said)


def _kind(said: str) -> str:
    for name in _LONGEST_FIRST:
        if said == name or said.startswith(f"{name} "):
            return _ON_WIRE.get(name, name)
    return ""
