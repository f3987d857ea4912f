"""An explained message as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from client.protocol.profiles import RELEASES
from harness.capture.explanation import Explanation, Field, Refusal
from harness.capture.kinds import UNKNOWN

_LABEL_WIDTH_MAX = 48


def spans(releases: Sequence[str]) -> str:
    """Write releases as ranges of the known ones: ``0.22.0-0.24.0, 0.33.0``."""
    groups: list[list[str]] = []
    for release in RELEASES:
        if release not in releases:
            continue
        place = RELEASES.index(release)
        if groups and RELEASES.index(groups[-1][-1]) == place - 1:
            groups[-1].append(release)
        else:
            groups.append([release])
    return ", ".join(g[0] if len(g) == 1 else f"{g[0]}-{g[-1]}" for g in groups) or "none"


def text_of(number: int, title: str, explained: Explanation) -> Iterator[str]:
    """Return the lines of the report on one message."""
    kind = explained.kind
    sizes = ", ".join(str(size) for size in explained.sizes)
    frames = "1 frame" if len(explained.sizes) == 1 else f"{len(explained.sizes)} frames"
    what = kind.title if kind.name == UNKNOWN else f"{kind.title}, {kind.direction}"
    yield f"message {number} ({title}): {what}, {frames} of {sizes} bytes"
    if explained.identity:
        yield f"  identity    {explained.identity.hex()}"
    if explained.taken:
        yield f"  taken by    {spans(explained.taken)}"
        if explained.written != explained.taken:
            yield f"  written by  {spans(explained.written)}"
    for refusal in explained.refusals:
        yield f"  refused by  {spans(refusal.releases)}{_where(refusal)}: {refusal.text}"
    if explained.broken is not None and not explained.refusals:
        yield f"  broken{_where(explained.broken)}: {explained.broken.text}"
    if kind.name == UNKNOWN:
        yield "  it looks like no message of the protocol; --as KIND says what it should be"
    if explained.fields:
        if kind.name != UNKNOWN:
            yield f"  fields, with the names of {explained.named_by}:"
        yield from _table(explained.fields)


def _where(refusal: Refusal) -> str:
    return "" if refusal.offset is None else f" at frame {refusal.frame}, byte {refusal.offset}"


def _table(fields: Sequence[Field]) -> Iterator[str]:
    rows = [
        (
            str(field.offset),
            "  " * max(field.depth - 1, 0) + (_short(field) if field.depth else "(body)"),
            field.type,
            field.note or field.value,
        )
        for field in fields
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    widths[1] = min(widths[1], _LABEL_WIDTH_MAX)
    for offset, name, type_name, value in rows:
        line = f"  {offset:>{widths[0]}}  {name:<{widths[1]}}  {type_name:<{widths[2]}}  {value}"
        yield line.rstrip()


def _short(field: Field) -> str:
    """The last part of a label; what stands above says the rest."""
    name = field.label.rpartition(".")[2]
    inner = name.rfind("[")
    return name[inner:] if field.depth > 1 and inner > 0 else name


def json_of(number: int, title: str, explained: Explanation) -> dict[str, Any]:
    """Return the report on one message in JSON's terms."""
    return {
        "number": number,
        "title": title,
        "kind": explained.kind.name,
        "direction": explained.kind.direction,
        "identity": explained.identity.hex(),
        "sizes": list(explained.sizes),
        "taken_by": list(explained.taken),
        "written_by": list(explained.written),
        "refused_by": [_refusal(refusal) for refusal in explained.refusals],
        "broken": None if explained.broken is None else _refusal(explained.broken),
        "named_by": explained.named_by,
        "value": explained.value,
        "fields": [
            {
                "label": field.label,
                "type": field.type,
                "value": field.value,
                "note": field.note,
                "frame": field.frame,
                "offset": field.offset,
                "length": field.length,
            }
            for field in explained.fields
        ],
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "releases": list(refusal.releases),
        "error": refusal.error,
        "text": refusal.text,
        "frame": refusal.frame,
        "offset": refusal.offset,
    }
