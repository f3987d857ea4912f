"""A difference as text, in about one screen, and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from harness.capture.compare import AnswerChange, Difference, OrderChange
from harness.capture.recording import FROM_ENGINE, TO_ENGINE
from harness.capture.shapes import FieldChange, FieldShape, MessageChange
from harness.capture.take import Capture

LINES_MAX = 20
"""Lines of one section; ``--all`` and the JSON have the rest."""
_VALUE_CHARS = 70
_CALL = re.compile(r" call \d+$", re.MULTILINE)
_TITLES = {
    TO_ENGINE: "field lists, frontend to engines",
    FROM_ENGINE: "field lists, engines to frontend (the mock engines' own, of each release)",
}


def text_of(
    first: Capture, second: Capture, difference: Difference, *, everything: bool = False
) -> Iterator[str]:
    """Return the lines of the report; ``-`` is the first capture, ``+`` the second."""
    stories = f"{len(difference.compared)} stories played on both"
    yield f"{first.title} -> {second.title}: {stories}"
    for direction, title in _TITLES.items():
        changes = [change for change in difference.fields if change.direction == direction]
        lines = [line for change in changes for line in _fields(change)]
        yield from _section(title, lines, everything)
    order = list(_order(difference.order, everything))
    yield from _section("order of messages at each engine", order, everything)
    answers = [line for change in difference.answers for line in _answer(change)]
    yield from _section("answers to callers", answers, everything)
    missing = [f"{c.story}: - {c.before}; + {c.after}" for c in difference.stories]
    yield from _section("stories of one of them only", missing, everything)
    if difference.is_empty:
        yield "no difference"
    elif difference.changed:
        yield f"other course: {', '.join(difference.changed)}"
    else:
        yield "no story took another course"


def _section(title: str, lines: Sequence[str], everything: bool) -> Iterator[str]:
    if not lines:
        return
    yield ""
    yield f"{title}:"
    shown = lines if everything or len(lines) <= LINES_MAX else lines[: LINES_MAX - 1]
    for line in shown:
        yield f"  {line}"
    if len(shown) < len(lines):
        yield f"  … {len(lines) - len(shown)} more lines; --all shows them"


def _order(changes: Sequence[OrderChange], everything: bool) -> Iterator[str]:
    """Show equal changes of several engines once; each engine has call ids of its own."""
    groups: dict[tuple[str, str, str], list[OrderChange]] = {}
    for change in changes:
        text = _CALL.sub("", "\n".join(change.lines))
        groups.setdefault((change.story, change.socket, text), []).append(change)
    for (story, socket, _text), group in groups.items():
        engines = ", ".join(str(change.engine) for change in group)
        yield f"{story}, engine{'s' if len(group) > 1 else ''} {engines}, {socket}:"
        for line in group[0].lines:
            if everything or not line.startswith(" "):
                shown = line if len(group) == 1 else _CALL.sub("", line)
                yield f"  {line[0]} {shown[1:]}"


def _fields(change: MessageChange) -> Iterator[str]:
    if change.only:
        sign = "-" if change.only == "a" else "+"
        yield f"{sign} {change.title} ({len(change.fields)} fields)"
        return
    moved = [field for field in change.fields if field.moved]
    for field in change.fields:
        if field not in moved:
            yield f"{change.title}: {_field(field)}"
    if moved:
        names = ", ".join(f"{f.name} {_place(f.before)}->{_place(f.after)}" for f in moved[:2])
        more = f" and {len(moved) - 2} more" if len(moved) > 2 else ""
        yield f"{change.title}: moved: {names}{more}"


def _place(shape: FieldShape | None) -> str:
    return "" if shape is None or shape.position is None else f"[{shape.position}]"


def _field(field: FieldChange) -> str:
    one, other = field.before, field.after
    if one is None or other is None:
        sign, there = ("-", one) if other is None else ("+", other)
        place = f" at {_place(there)}" if _place(there) else ""
        return f"{sign} {field.name}{place}: {there.text if there is not None else ''}"
    return f"~ {field.name}: {one.text} -> {other.text}"


def _answer(change: AnswerChange) -> Iterator[str]:
    before, after = _value(change.before), _value(change.after)
    yield f"{change.story}, {change.op}: {change.fact}: - {before}; + {after}"


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS - 1]}…"


def json_of(first: Capture, second: Capture, difference: Difference) -> dict[str, Any]:
    """Return the whole difference in JSON's terms."""
    return {
        "a": _capture(first),
        "b": _capture(second),
        "same": difference.is_empty,
        "compared": list(difference.compared),
        "changed": list(difference.changed),
        "stories": [{"story": c.story, "a": c.before, "b": c.after} for c in difference.stories],
        "fields": [
            {
                "message": change.name,
                "direction": change.direction,
                "only_in": change.only or None,
                "fields": [
                    {
                        "field": f.name,
                        "a": _shape(f.before),
                        "b": _shape(f.after),
                        "moved": f.moved,
                    }
                    for f in change.fields
                ],
            }
            for change in difference.fields
        ],
        "order": [
            {
                "story": change.story,
                "engine": change.engine,
                "socket": change.socket,
                "lines": list(change.lines),
            }
            for change in difference.order
        ],
        "answers": [
            {
                "story": change.story,
                "op": change.op,
                "fact": change.fact,
                "a": change.before,
                "b": change.after,
            }
            for change in difference.answers
        ],
    }


def _shape(shape: FieldShape | None) -> dict[str, Any] | None:
    if shape is None:
        return None
    return {
        "position": shape.position,
        "types": sorted(shape.types),
        "lengths": sorted(shape.lengths),
    }


def _capture(capture: Capture) -> dict[str, Any]:
    return {
        "target": capture.target,
        "version": capture.version,
        "tool": capture.tool,
        "notes": list(capture.notes),
        "stories": len(capture.stories),
    }
