"""A violation as a Mermaid sequence diagram, which code hosts and wikis draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.reports.told.lines import place_of
from harness.reports.told.model import Event, Trace, Violation
from harness.reports.wording import counted

EVENTS_MAX = 120
"""Events of one diagram: what draws it refuses much longer ones, and nobody reads them."""
BEFORE, AFTER = 12, 4
"""Events round each one of the witness that a diagram of a long run shows."""
TEXT_MAX = 90
"""Characters of one event."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.,=/()-")


def mermaid(violation: Violation, *, most: int = EVENTS_MAX) -> str:
    """The diagram, with a final newline.

    Args:
        violation: with a trace, or with a witness in lines.
        most: events that it shows; others are counted.
    """
    trace = violation.trace if violation.trace is not None else _of_lines(violation)
    shown = chosen(trace.events, violation.witness, most)
    return "\n".join(_lines(violation, trace, shown)) + "\n"


def _of_lines(violation: Violation) -> Trace:
    """The witness alone, where no events are there."""
    # Here, since they import what reads failure files.
    from harness.reports.told.lines import read_line
    from harness.reports.told.traces import RECORDED, lanes_of

    lines = [line for text in violation.evidence if (line := read_line(text)) is not None]
    events = [
        Event(line.seq, line.time_us, line.place.kind, line.place.source, line.place.target,
              line.place.text)
        for line in lines
    ]  # fmt: skip
    return Trace(RECORDED, "", lanes_of(events, black_box=False), {}, events, [], len(events))


def chosen(events: Sequence[Event], witness: Sequence[int], most: int) -> list[int]:
    """Places of the events to show: all, or those round the witness, or the last ones.

    Of a long witness the last events count most: there it breaks.
    """
    if len(events) <= most:
        return list(range(len(events)))
    wanted = set(witness)
    places = [place for place, event in enumerate(events) if event.seq in wanted]
    if not places:
        return list(range(len(events) - most, len(events)))
    found: set[int] = set()
    for place in reversed(places):
        near = set(range(max(0, place - BEFORE), min(len(events), place + AFTER + 1)))
        if found and len(found | near) > most:
            break
        found |= near
    return sorted(found)


def escaped(text: str) -> str:
    """Text in which nothing is markup of Mermaid or HTML: other signs become their numbers."""
    short = text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
    return "".join(sign if sign in _PLAIN else f"#{ord(sign)};" for sign in " ".join(short.split()))


def _lines(violation: Violation, trace: Trace, shown: Sequence[int]) -> Iterator[str]:
    used = {lane for place in shown for lane in _ends(trace.events[place])}
    lanes = [lane for lane in trace.lanes if lane.id in used] or list(trace.lanes[:1])
    names = {lane.id: f"L{number}" for number, lane in enumerate(lanes)}
    first, last = f"L0,L{len(lanes) - 1}" if len(lanes) > 1 else "L0", -1
    code = f"{violation.code}: " if violation.code else ""
    yield "sequenceDiagram"
    yield f"    accTitle: {escaped(violation.scenario)}"
    for lane in lanes:
        yield f"    participant {names[lane.id]} as {escaped(lane.title)}"
    yield f"    Note over {first}: {escaped(code + violation.message)}"
    for place in shown:
        if gap := place - last - 1:
            yield f"    Note over {first}: {_gap(gap)}"
        last = place
        yield from _event(trace.events[place], names, violation.witness)
    if gap := len(trace.events) - last - 1:
        yield f"    Note over {first}: {_gap(gap)}"


def _gap(events: int) -> str:
    return escaped(f"… {counted(events, 'event')}")


def _ends(event: Event) -> tuple[str, str]:
    return event.source, event.target


def _event(event: Event, names: dict[str, str], witness: Sequence[int]) -> Iterator[str]:
    place = place_of(event.text)
    said = event.text if place is None else place.said
    text = escaped(f"#{event.seq} {said}")
    shows = event.seq in witness
    indent = "        " if shows else "    "
    if shows:
        yield "    rect rgb(255, 221, 128)"
    source, target = names[event.source], names[event.target]
    if source == target:
        yield f"{indent}Note over {source}: {text}"
    else:
        yield f"{indent}{source}->>{target}: {text}"
    if shows:
        yield "    end"
