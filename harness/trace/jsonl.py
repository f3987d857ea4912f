"""A trace as JSON lines: a header, then one record a line; reading gives equal records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import IO, Any

from client.protocol.strict_json import loads
from harness.trace.events import Event, Record
from harness.trace.kinds import EVENT_CLASSES, FIELDS_OF

FORMAT_VERSION = 1
_CLASSES: dict[str, type] = {cls.__name__: cls for cls in EVENT_CLASSES}


class TraceFormatError(ValueError):
    """A trace file cannot be read; the message says which line and why."""


def to_json(record: Record) -> dict[str, Any]:
    """One record as plain values: ``seq``, ``time_us``, ``event`` and its ``fields``."""
    event = record.event
    fields = {name: _plain(getattr(event, name)) for name in FIELDS_OF[type(event)]}
    return {
        "seq": record.seq,
        "time_us": record.time_us,
        "event": type(event).__name__,
        "fields": fields,
    }


def from_json(item: Any) -> Record:
    """Rebuild a record.

    Raises:
        TraceFormatError: unknown event, or fields that it has not.
    """
    try:
        cls = _CLASSES[item["event"]]
        fields = {name: _rich(value) for name, value in item["fields"].items()}
        event: Event = cls(**fields)
        return Record(item["seq"], item["time_us"], event)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        msg = f"not a trace record: {type(error).__name__}: {error}"
        raise TraceFormatError(msg) from error


def write(records: Iterable[Record], file: IO[str]) -> None:
    """Write a header and one line for each record."""
    file.write(json.dumps({"wavecheck_trace": FORMAT_VERSION}) + "\n")
    for record in records:
        file.write(json.dumps(to_json(record), ensure_ascii=False, separators=(",", ":")) + "\n")


def read(file: IO[str]) -> list[Record]:
    """Read what ``write`` wrote.

    Raises:
        TraceFormatError: another format or version, or a line that is no record.
    """
    records: list[Record] = []
    for number, line in enumerate(file, start=1):
        try:
            item = loads(line, lenient=True)
        except ValueError as error:
            msg = f"line {number}: not JSON: {error}"
            raise TraceFormatError(msg) from error
        if number == 1:
            _check_header(item)
            continue
        try:
            records.append(from_json(item))
        except TraceFormatError as error:
            msg = f"line {number}: {error}"
            raise TraceFormatError(msg) from error
    return records


def _check_header(item: Any) -> None:
    version = item.get("wavecheck_trace") if isinstance(item, dict) else None
    if version != FORMAT_VERSION:
        msg = f"line 1: trace format {version!r}; this version reads format {FORMAT_VERSION}"
        raise TraceFormatError(msg)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _rich(value: Any) -> Any:
    """Events hold tuples and bytes only, so that the way back needs no types."""
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    if isinstance(value, list):
        return tuple(_rich(item) for item in value)
    return value
