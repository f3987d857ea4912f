"""Sequence diagrams of text for the pages, drawn from runs of the simulation.

A picture is what one scenario shows in plain FIFO order, of the kinds of events that it is about.
So it cannot say what the reference client does not do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from client.protocol.profiles import profile_for
from harness.play import play
from harness.reports.diagram import row
from harness.reports.told.lines import CALLERS, CLIENT, COORDINATOR, Line, read_line
from harness.runner import make_spec
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario, load, parse
from harness.strategies.fifo import FifoStrategy
from harness.targets.reference import SimTarget
from harness.trace.render import render
from harness.worlds import SimWorld

WIDTH = 12
"""Columns of a lane."""
_FIELD = re.compile(r"(\w+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|\S+)")
_ORDER = (CALLERS, CLIENT, COORDINATOR)


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn.

    Attributes:
        scenario: id of a built-in one, or the text of one.
        release: whose rules hold.
        says: for each kind of event that is drawn, the fields that are shown.
        mutant: the known bug that the client has.
        first, last: the part of the run that is drawn, by number of drawn events.
    """

    scenario: str
    release: str
    says: dict[str, tuple[str, ...]] = field(hash=False)
    mutant: str | None = None
    first: int = 0
    last: int | None = None


_CALLS = {
    "utility-started": ("method",),
    "utility": ("call_id", "method"),
    "reply": ("call_id", "failure", "value"),
    "utility-ended": ("outcome",),
}
_WAVES = {
    "call-started": (),
    "add": ("request_id", "wave"),
    "first-request-queued": ("engine", "wave"),
    "first-request": ("request_wave", "wave_after"),
    "start_wave": ("wave", "exclude"),
    "notice": ("notice", "wave"),
    "published": ("wave", "running"),
}
_ONE_REQUEST = """
title: One request wakes all engines
promise: Ranks step together.
refs: [vllm#46833]
topology: {coordinator: in-process}
steps:
  - call: {id: chat, rank: 0}
  - finish: chat
  - wait: {event: notice, count: 1}
  - fence: true
"""
PICTURES = {
    "picture-fan-out": Picture("utility/failing-beside-hanging", "0.29.0", _CALLS),
    "picture-fan-out-fail-fast": Picture(
        "utility/failing-beside-hanging", "0.29.0", _CALLS, mutant="fail-fast-fan-out"
    ),
    "picture-wave": Picture(_ONE_REQUEST, "0.32.0", _WAVES),
    "picture-wave-of-an-engine": Picture(_ONE_REQUEST, "0.33.0", _WAVES),
    "picture-stale": Picture("waves/stale-first-request", "0.32.0", _WAVES),
    "picture-external": Picture("waves/external-first-request", "0.32.0", _WAVES),
}


def picture(name: str) -> str:
    """Draw one, as a block of a page."""
    asked = PICTURES[name]
    lines = list(_lines(asked))[asked.first : asked.last]
    used = {lane for line in lines for lane in (line.place.source, line.place.target)}
    engines = sorted(
        (lane for lane in used if lane not in _ORDER), key=lambda lane: (len(lane), lane)
    )
    lanes = [lane for lane in _ORDER if lane in used] + engines
    head = "".join(lane.center(WIDTH) for lane in lanes).rstrip()
    rows = [
        f"{row(line, lanes, WIDTH).rstrip()}  {_words(line, asked.says)}".rstrip() for line in lines
    ]
    return "\n".join(["```text", head, *rows, "```"]) + "\n"


def _lines(asked: Picture) -> Iterator[Line]:
    """Play it, and read the events that are drawn."""
    loaded = _loaded(asked.scenario)
    target = SimTarget()
    profile = profile_for(asked.release)
    played = play(
        make_spec(loaded.scenario, target, profile, asked.mutant), SimWorld(FifoStrategy())
    )
    for record in played.records:
        line = read_line(render(record))
        if line is not None and line.place.kind.replace("_", "-") in {
            kind.replace("_", "-") for kind in asked.says
        }:
            yield line


def _loaded(scenario: str) -> LoadedScenario:
    if "\n" in scenario:
        return parse(scenario, Path("picture.yaml"), name="picture")
    (found,) = [each for each in selection.builtin() if each.id == scenario]
    return load(found.path)


def _words(line: Line, says: dict[str, tuple[str, ...]]) -> str:
    """The kind of an event and the fields that a picture shows."""
    shown = [
        match[0] for match in _FIELD.finditer(line.place.said) if match[1] in says[line.place.kind]
    ]
    return " ".join([_FIELD.split(line.place.said)[0].strip(), *shown])
