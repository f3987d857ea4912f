"""Violations as a trace in the Trace Event Format, for Perfetto and Chrome's trace viewer.

A violation is a process, a lane a thread, an event a slice, a message a flow between two slices,
and a caller's operation an asynchronous span. In simulation most events happen at one moment of
virtual time; so that their order can be seen, each begins at least ``STEP_US`` after the one
before it. Its true time is among its arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from harness.reports.told.model import Event, Report, Trace, Violation

STEP_US = 2
"""Least distance of two events, in microseconds of the written trace."""
SLICE_US = 1
_BEGINS = {"call-started": "call", "utility-started": "utility", "request-started": "request"}
_ENDS = {"call-ended": "call", "utility-ended": "utility", "request-ended": "request"}
_NAMES = {"start_wave": "START_DP_WAVE"}


def perfetto(report: Report) -> str:
    """The trace as JSON text."""
    told = [v for v in report.violations if v.trace is not None]
    events = [entry for number, v in enumerate(told, start=1) for entry in _process(number, v)]
    document = {
        "displayTimeUnit": "ms",
        "otherData": {"tool": f"wavecheck {report.tool}", "source": report.source},
        "traceEvents": events,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def times(events: Sequence[Event]) -> list[int]:
    """When each event begins in the written trace, in microseconds."""
    found: list[int] = []
    for event in events:
        least = found[-1] + STEP_US if found else 0
        found.append(max(least, event.time_us))
    return found


def _process(number: int, violation: Violation) -> Iterator[dict[str, Any]]:
    trace = violation.trace
    assert trace is not None
    name = f"{violation.scenario}: {violation.code or violation.level}"
    yield _meta(number, 0, "process_name", name=name)
    yield _meta(number, 0, "process_sort_index", sort_index=number)
    threads = {lane.id: place for place, lane in enumerate(trace.lanes, start=1)}
    for place, lane in enumerate(trace.lanes, start=1):
        yield _meta(number, place, "thread_name", name=lane.title)
        yield _meta(number, place, "thread_sort_index", sort_index=place)
    witness = set(violation.witness)
    for event, start in zip(trace.events, times(trace.events), strict=True):
        yield from _event(number, threads, event, start, shows=event.seq in witness)
    yield from _spans(number, threads, trace)


def _meta(pid: int, tid: int, what: str, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args}


def _event(
    pid: int, threads: dict[str, int], event: Event, start: int, *, shows: bool
) -> Iterator[dict[str, Any]]:
    name = _NAMES.get(event.kind, event.kind or "event")
    args: dict[str, Any] = {"seq": event.seq, "time_us": event.time_us, "text": event.text}
    if event.fields is not None:
        args["fields"] = event.fields
    if shows:
        args["witness"] = True
    common = {"pid": pid, "cat": "witness" if shows else "event", "name": name}
    for lane in dict.fromkeys((event.source, event.target)):
        slice_ = {**common, "ph": "X", "tid": threads[lane], "ts": start, "dur": SLICE_US}
        yield {**slice_, "args": args}
    if event.source != event.target:
        flow = {**common, "cat": "message", "id": f"{pid}.{event.seq}", "ts": start}
        yield {**flow, "ph": "s", "tid": threads[event.source]}
        yield {**flow, "ph": "f", "bp": "e", "tid": threads[event.target]}


def _spans(pid: int, threads: dict[str, int], trace: Trace) -> Iterator[dict[str, Any]]:
    """What callers waited for, from its beginning to its end; what has no end is left open."""
    for event, start in zip(trace.events, times(trace.events), strict=True):
        what = _BEGINS.get(event.kind) or _ENDS.get(event.kind)
        if what is None or event.fields is None:
            continue
        op = str(event.fields.get("op"))
        yield {
            "ph": "b" if event.kind in _BEGINS else "e",
            "cat": what,
            "name": f"{what} {op}",
            "id": f"{pid}.{what}.{op}",
            "pid": pid,
            "tid": threads[event.source],
            "ts": start,
        }
