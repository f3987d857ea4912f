"""The witness of a violation as a small sequence diagram of text."""

from __future__ import annotations

from collections.abc import Sequence

from harness.reports.told.lines import CALLERS, CLIENT, COORDINATOR, HARNESS, Line, read_line

LANES_MAX = 8
"""With more lanes there is no room for what the events say, and the lines are shown as they are."""
LANE_WIDTH_MIN = 9


def diagram(evidence: Sequence[str]) -> tuple[str, ...]:
    """Lines of a trace with their lanes drawn; other lines as they are.

    ``client -> engine 1`` becomes an arrow from the lane of the one to that of the other, and what
    sends nothing a mark on its lane. The number, the time and the words of a line stay.
    """
    read = [read_line(line) for line in evidence]
    events = [line for line in read if line is not None]
    lanes = _lanes(events)
    if not events or len(lanes) > LANES_MAX:
        return tuple(evidence)
    numbers = max(len(f"#{line.seq}") for line in events)
    times = max(len(_time(line)) for line in events)
    width = max(LANE_WIDTH_MIN, *(len(lane) + 1 for lane in lanes))
    margin = " " * (numbers + times + 3)
    head = margin + "".join(lane.center(width) for lane in lanes)
    rows = [head.rstrip()]
    for line, text in zip(read, evidence, strict=True):
        if line is None:
            rows.append(text)
            continue
        drawn = row(line, lanes, width)
        rows.append(
            f"{f'#{line.seq}':<{numbers}} {_time(line):>{times}}  {drawn}  {line.place.text}"
        )
    return tuple(rows)


def _lanes(events: Sequence[Line]) -> list[str]:
    used = {lane for line in events for lane in (line.place.source, line.place.target)}
    engines = sorted((lane for lane in used if lane.startswith("engine ")), key=_rank)
    order = [CALLERS, CLIENT, COORDINATOR, *engines, HARNESS]
    return [lane for lane in order if lane in used or lane == CLIENT]


def _rank(lane: str) -> int:
    return int(lane.partition(" ")[2])


def _time(line: Line) -> str:
    return f"t={line.time_us / 1_000_000:.3f}s"


def row(line: Line, lanes: Sequence[str], width: int) -> str:
    """One event: its lanes, ``width`` characters each, and an arrow or a mark."""
    signs = [" "] * (width * len(lanes))
    middles = {lane: place * width + width // 2 for place, lane in enumerate(lanes)}
    for middle in middles.values():
        signs[middle] = "|"
    source, target = middles[line.place.source], middles[line.place.target]
    if source == target:
        signs[source] = "*"
        return "".join(signs)
    low, high = min(source, target), max(source, target)
    for place in range(low + 1, high):
        signs[place] = "-"
    signs[target + (1 if source > target else -1)] = "<" if source > target else ">"
    return "".join(signs)
