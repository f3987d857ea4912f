"""One line for people for each record of a trace: number, time, lane, arrow, message."""

from __future__ import annotations

from typing import Any

from client import events as client
from harness.exit_words import code_and_name
from harness.trace import events as harness
from harness.trace.events import Event, Record
from harness.trace.kinds import FIELDS_OF, KIND_OF
from mock_engines import events as mock

_CUT = 160
"""Longest message of a line, in characters."""

# What a class is called on the wire; the engine receives (<-, SEEN) or sends (->, SENT) it.
SEEN: dict[type, str] = {
    mock.AddSeen: "ADD",
    mock.AbortSeen: "ABORT",
    mock.UtilitySeen: "UTILITY",
    mock.StartWaveSeen: "START_DP_WAVE",
    mock.GateOpened: "READY (coordinator gate)",
    mock.UnknownSeen: "unknown bytes",
}
SENT: dict[type, str] = {
    mock.OutputSent: "output",
    mock.FinishedOnlySent: "finished_requests",
    mock.UtilityReplySent: "utility reply",
    mock.WaveNoticeSent: "wave notice",
    mock.StatsSent: "stats",
    mock.RawSent: "raw frames",
}
_SAID_ELSEWHERE = {
    (cls, name)
    for cls in (mock.RanksStuck, mock.RanksSpin)
    for name in ("states", "log", "met", "dropped")
}
"""Long, and what a verdict shows line by line; the event's JSON has it."""
_PLAIN = {mock.RankMoved}
"""Of many flags only those that are set are shown."""
_COORDINATOR = (client.FirstRequestHandled, client.WaveNoticeHandled, client.CoordinatorPublished)


def render(record: Record, *, start_us: int = 0) -> str:
    """Render one record, e.g. ``#118  t=0.412s  engine 1 <- START_DP_WAVE wave=4 exclude=1``.

    ``start_us``: when the run started on the clock of its records, microseconds.
    """
    seconds = (record.time_us - start_us) / 1_000_000
    return f"#{record.seq}  t={seconds:.3f}s  {describe(record.event)}"


def describe(event: Event) -> str:
    """Lane, arrow and message of one event."""
    cls = type(event)
    if (name := SEEN.get(cls)) is not None:
        lane = f"engine {_get(event, 'engine')} <-"
    elif (name := SENT.get(cls)) is not None:
        lane = f"engine {_get(event, 'engine')} ->"
    else:
        lane, name = _lane(event), KIND_OF[cls][0]
    details = _details(event)
    text = f"{name} {details}".rstrip()
    return f"{lane} {text if len(text) <= _CUT else text[: _CUT - 1] + '…'}"


def _lane(event: Event) -> str:
    cls = type(event)
    if isinstance(event, _COORDINATOR):
        return "coordinator:"
    if cls.__module__ == client.__name__:
        return "client:"
    if cls.__module__ == mock.__name__:
        return f"engine {_get(event, 'engine')}:"
    if (op := getattr(event, "op", None)) is not None:
        return f"caller {op}:"
    if cls in {harness.LogLine, harness.ProcessExited}:
        return "frontend:"
    return "harness:"


def _details(event: Event) -> str:
    if isinstance(event, harness.ProcessExited):
        return f"code={code_and_name(event.code)}"
    shown = []
    wire = type(event).__module__ == mock.__name__
    for name in FIELDS_OF[type(event)]:
        value = _get(event, name)
        if name == "op" or (name == "engine" and wire) or value in ("", ()):
            continue
        if value is None and name != "exclude":
            continue
        if (type(event), name) in _SAID_ELSEWHERE or (type(event) in _PLAIN and not value):
            continue
        shown.append(f"{name}={_short(value)}")
    return " ".join(shown)


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return "[" + ", ".join(_short(item) for item in value) + "]"
    return repr(value) if isinstance(value, str) and (" " in value or not value) else str(value)


def _get(event: Event, name: str) -> Any:
    return getattr(event, name)
