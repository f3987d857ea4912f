"""The events behind a failure file: its tape played again, or the lines that it holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from client.protocol.profiles import profile_for
from harness.capture.kept import KeptRun, frames_of, read_kept
from harness.capture.listening import Listening
from harness.failure import FailureFile, FailureFileError
from harness.replay import OpenFailure, ReplayKind, ReplayOutcome, open_failure, replayed
from harness.reports.told.lines import (
    CALLERS,
    CLIENT,
    COORDINATOR,
    HARNESS,
    place_of,
    read_line,
)
from harness.reports.told.messages import told_messages
from harness.reports.told.model import Choice, Event, Lane, Message, Trace
from harness.scenario.problems import ScenarioFileError
from harness.shrink.promise import Promise
from harness.targets.base import TargetError
from harness.targets.registry import is_black_box
from harness.trace.events import Record
from harness.trace.jsonl import to_json
from harness.trace.kinds import KIND_OF
from harness.trace.render import describe
from harness.walk import Chosen, Walk

EVENTS_MAX = 20_000
"""Events of one trace that a report holds; a longer one is cut round its witness."""
BEFORE_SHARE = 0.75
"""Part of a cut trace that lies before the last event of the witness."""
REPLAYED, RECORDED = "replayed", "recorded"
OPTIONS_MAX = 12
"""Options of a choice that are named."""

_MEANING = dict(KIND_OF.values())


@dataclass(frozen=True, slots=True)
class Found:
    """A trace, and the events in it that show the violation.

    Attributes:
        message, expected, seen: what the run broke, where it was judged again; else ``""``.
    """

    trace: Trace
    witness: tuple[int, ...]
    message: str = ""
    expected: str = ""
    seen: str = ""


def trace_of(path: Path, failure: FailureFile) -> Found:
    """Get the events of a failure.

    A tape is played again, with bytes; where there is none, or what it gives is another course,
    the lines in the file are told, and a note says why.

    Raises:
        KeyboardInterrupt: interrupted; everything of the run has been released.
    """
    if failure.tape is None:
        return _recorded(failure, "")
    try:
        opened = open_failure(path)
        listening = Listening(opened.spec.engine_profile)
        watch = _Watch(listening)
        spec = replace(opened.spec, tap=listening.tap)
        outcome = replayed(replace(opened, spec=spec), watch)
    except (FailureFileError, TargetError) as error:
        return _recorded(failure, f"it cannot be played again: {error}")
    except ScenarioFileError as error:
        first = error.diagnostics()[0].title
        return _recorded(failure, f"it cannot be played again, its scenario is not valid: {first}")
    if outcome.kind is not ReplayKind.REPRODUCED:
        return _recorded(failure, f"played again by this version: {outcome.text}")
    return _replayed(opened, outcome, listening, watch)


class _Watch(Walk):
    """Keeps records and choices, and tells who listens at the sockets."""

    def __init__(self, listening: Listening) -> None:
        super().__init__()
        self._listening = listening
        self.records: list[Record] = []
        self.departing: list[Choice] = []
        self.choices = 0

    def event(self, record: Record) -> None:
        """Take note of an event."""
        self._note_choices()
        self.records.append(record)
        self._listening.event(record)

    def _note_choices(self) -> None:
        for moment in self.moments:
            if isinstance(moment, Chosen):
                self.choices += 1
                if moment.departs:
                    self.departing.append(_choice(moment, before=len(self.records)))
        self.moments.clear()

    def finish(self) -> None:
        """Take note of the choices behind the last event."""
        self._note_choices()


def _choice(moment: Chosen, *, before: int) -> Choice:
    options = list(moment.options[:OPTIONS_MAX])
    if (more := len(moment.options) - OPTIONS_MAX) > 0:
        options.append(f"… and {more} more")
    return Choice(moment.number, before, moment.options[moment.index], options)


def _replayed(
    opened: OpenFailure, outcome: ReplayOutcome, listening: Listening, watch: _Watch
) -> Found:
    watch.finish()
    failure, attempt = opened.failure, outcome.attempt
    assert attempt is not None
    broken = Promise(failure.violated).broken_in(attempt)
    assert broken is not None
    frames, of_event = listening.told()
    start, stop = window(len(watch.records), broken.witness)
    events = [_event(record, of_event.get(record.seq, ())) for record in watch.records[start:stop]]
    trace = Trace(
        origin=REPLAYED,
        note="" if outcome.digest_matches else outcome.text,
        lanes=lanes_of(events, black_box=False),
        kinds=_kinds_of(events),
        events=events,
        messages=told_messages(frames, opened.spec.engine_profile),
        total=len(watch.records),
        choices=[choice for choice in watch.departing if start <= choice.before <= stop],
        choices_total=watch.choices,
    )
    return Found(trace, broken.witness, broken.message, broken.expected, broken.seen)


def _event(record: Record, messages: Iterable[int]) -> Event:
    kind = KIND_OF[type(record.event)][0]
    place = place_of(describe(record.event), kind)
    assert place is not None  # a test reads every class of event back
    return Event(
        seq=record.seq,
        time_us=record.time_us,
        kind=kind,
        source=place.source,
        target=place.target,
        text=place.text,
        fields=plain(to_json(record)["fields"]),
        messages=list(messages),
    )


def _recorded(failure: FailureFile, note: str) -> Found:
    """The events as the file has them, one line each."""
    lines = [line for text in failure.events if (line := read_line(text)) is not None]
    notes = [note] if note else []
    if (lost := len(failure.events) - len(lines)) > 0:
        notes.append(f"{lost} lines of the file are no events")
    known = {line.seq for line in lines}
    witness = tuple(seq for seq in failure.witness if seq in known)
    if len(witness) < len(failure.witness):
        notes.append("not every event of the witness is in the file")
    places = {line.seq: number for number, line in enumerate(lines)}
    start, stop = window(len(lines), [places[seq] for seq in witness])
    kept, messages, why = _kept(failure)
    notes += [why] if why else []
    of_event = _messages_of(kept)
    events = [
        Event(
            seq=line.seq,
            time_us=line.time_us,
            kind=line.place.kind,
            source=line.place.source,
            target=line.place.target,
            text=line.place.text,
            fields=plain(kept.fields[line.seq]) if line.seq < len(kept.fields) else None,
            messages=of_event.get(line.seq, []),
        )
        for line in lines[start:stop]
    ]
    trace = Trace(
        origin=RECORDED,
        note="; ".join(notes),
        lanes=lanes_of(events, black_box=is_black_box(failure.target)),
        kinds=_kinds_of(events),
        events=events,
        messages=messages,
        total=len(lines),
    )
    return Found(trace, witness)


def _kept(failure: FailureFile) -> tuple[KeptRun, list[Message], str]:
    """Payloads and messages that the file holds, or why it holds none that can be read."""
    none = KeptRun([], [])
    if failure.recording is None or failure.tape is not None:
        return none, [], ""
    try:
        kept = read_kept(dict(failure.recording))
        profile = profile_for(failure.profile)
        sizes = [message.sizes for message in kept.messages]
        return kept, told_messages(frames_of(kept), profile, sizes), ""
    except (msgspec.ValidationError, ValueError, KeyError) as error:
        return none, [], f"its payloads and bytes cannot be read: {error}"


def _messages_of(kept: KeptRun) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for place, message in enumerate(kept.messages):
        for seq in message.events:
            found.setdefault(seq, []).append(place)
    return found


def window(total: int, witness: Sequence[int], most: int = EVENTS_MAX) -> tuple[int, int]:
    """Which part of a trace to keep: all of it, or ``most`` events round the end of the witness.

    Args:
        total: events there are.
        witness: places of those that show the violation.
        most: how many are kept.
    """
    if total <= most:
        return 0, total
    last = max(witness, default=total - 1)
    start = min(max(0, last - int(most * BEFORE_SHARE)), total - most)
    return start, start + most


def lanes_of(events: Iterable[Event], *, black_box: bool) -> list[Lane]:
    """The lanes of a diagram: client and engines always, the others where they are used."""
    used = {lane for event in events for lane in (event.source, event.target)}
    engines = sorted(
        (lane for lane in used if lane.startswith("engine ")), key=lambda lane: int(lane[7:])
    )
    titles = {CLIENT: "frontend"} if black_box else {}
    order = [CALLERS, CLIENT, COORDINATOR, *engines, HARNESS]
    return [Lane(lane, titles.get(lane, lane)) for lane in order if lane in used or lane == CLIENT]


def _kinds_of(events: Iterable[Event]) -> dict[str, str]:
    return {kind: _MEANING.get(kind, "") for kind in sorted({event.kind for event in events})}


def plain(value: Any) -> Any:
    """A value in JSON's terms: no bytes, no numbers that JSON lacks."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
