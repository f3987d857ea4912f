"""Recorded messages as they are shown: bytes, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence

from client.protocol.profiles import Profile
from harness.capture.explain import explain
from harness.capture.explanation import Explanation, Field
from harness.capture.kinds import kind_of_frame
from harness.capture.recording import Frame
from harness.reports.told.model import Message, Row

BYTES_SHOWN = 4_096
"""Bytes of one frame that are shown."""
ROWS_SHOWN = 200
"""Values of one message that are shown."""
VALUE_SHOWN = 200
"""Characters of one value that are shown."""
_NIL = "nil"


def told_messages(
    frames: Sequence[Frame], profile: Profile, sizes: Sequence[Sequence[int]] | None = None
) -> list[Message]:
    """Explain messages; those that are alike are explained once.

    Args:
        frames: as recorded.
        profile: the release that was spoken; its names are used.
        sizes: whole lengths of their frames, where these may have been cut.
    """
    kept: dict[tuple[str, str, tuple[bytes, ...]], Explanation] = {}
    found = []
    for place, frame in enumerate(frames):
        key = (frame.socket, frame.direction, frame.frames)
        if key not in kept:
            kept[key] = explain(frame.frames, kind=kind_of_frame(frame), only=profile.release)
        found.append(_message(frame, kept[key], None if sizes is None else sizes[place]))
    return found


def _message(frame: Frame, explained: Explanation, sizes: Sequence[int] | None) -> Message:
    whole = [len(part) for part in frame.frames]
    cut = sizes is not None and list(sizes) != whole
    fields = [] if cut else [field for field in explained.fields if not _is_nil(field)]
    notes = ["it was too long to be kept whole"] if cut else _notes(explained)
    if (more := len(fields) - ROWS_SHOWN) > 0:
        notes.append(f"{more} more values are not shown")
    return Message(
        kind=explained.kind.name,
        title=explained.kind.title,
        engine=frame.engine,
        socket=frame.socket,
        direction=frame.direction,
        frames=[part[:BYTES_SHOWN].hex() for part in frame.frames],
        sizes=whole if sizes is None else list(sizes),
        rows=[_row(field) for field in fields[:ROWS_SHOWN]],
        nil=0 if cut else len(explained.fields) - len(fields),
        named_by=explained.named_by,
        note="; ".join(notes),
    )


def _notes(explained: Explanation) -> list[str]:
    """Why it is no message that its receiver takes."""
    notes = [refusal.text for refusal in explained.refusals]
    if not notes and explained.broken is not None:
        notes.append(explained.broken.text)
    return notes


def _is_nil(field: Field) -> bool:
    return field.value == _NIL and not field.note


def _row(field: Field) -> Row:
    value = field.note or field.value
    return Row(
        field.depth,
        field.label or "(body)",
        field.type,
        value if len(value) <= VALUE_SHOWN else f"{value[: VALUE_SHOWN - 1]}…",
        field.frame,
        field.offset,
        field.length,
    )
