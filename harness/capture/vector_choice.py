"""Which messages of captures become golden vectors: one of each form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from client.protocol.messages import (
    Add,
    FinishReason,
    RequestBatch,
    StartWave,
    UtilityCall,
    UtilityReply,
    WaveComplete,
)
from client.protocol.profiles import PROFILES, RELEASES, Profile
from harness.capture import names, tree
from harness.capture.explain import decode
from harness.capture.kinds import KINDS, UNKNOWN, kind_of_frame
from harness.capture.normal import Normal, spoken
from harness.capture.recording import Frame
from harness.capture.take import PLAYED, Capture, Story
from harness.capture.vectors import Vector, right_in, run_around


def form_of(kind: str, frames: Sequence[bytes], profile: Profile, message: Any) -> tuple[Any, ...]:
    """Return what makes a message another vector: fields, types, lengths, method, finish."""
    at = KINDS[kind].body
    if at is None or at >= len(frames) or not frames[at]:
        return (kind, tuple(len(frame) for frame in frames) if at is None else ())
    method = message.method if isinstance(message, UtilityCall) else ""
    schema = names.schema_of(kind, profile, method)
    fields = {
        (names.label(schema, path, general=True), node.kind, _length(schema, path, node))
        for path, node in tree.read_tree(frames[at], trailing=True).walk()
    }
    finish: tuple[FinishReason | None, ...] = ()
    if isinstance(message, RequestBatch):
        finish = tuple(row.finish_reason for row in message.outputs)
    return (kind, method, finish, frozenset(fields))


def _length(schema: names.Schema, path: names.Path, node: tree.Node) -> int | None:
    is_struct = node.kind == tree.ARRAY and names.schema_at(schema, path).is_struct
    return len(node.items) if is_struct else None


def choose(captures: Sequence[Capture], existing: Sequence[Vector] = ()) -> list[Vector]:
    """Pick one message of each form, the oldest release first; keep vectors that are right."""
    order = {release: place for place, release in enumerate(RELEASES)}
    stories = sorted(
        (
            (order[story.release], capture.title, story)
            for capture in captures
            for story in capture.stories
            if story.status == PLAYED and story.release in order
        ),
        key=lambda item: item[0],
    )
    chosen: dict[tuple[Any, ...], Vector] = {}
    for vector in existing:
        if (form := _form_of_existing(vector)) is not None:
            chosen[form] = replace(vector, seen_in=())
    for _place, title, story in stories:
        normal = Normal(story)
        for frame in spoken(story.frames, normal):
            _consider(frame, story, title, normal, chosen)
    used = [vector for vector in chosen.values() if vector.seen_in]
    return sorted(used, key=lambda vector: (vector.kind, order[vector.releases[0]], vector.name))


def _form_of_existing(vector: Vector) -> tuple[Any, ...] | None:
    """The form of a vector that is still right, ``None`` for one that is not."""
    release = vector.releases[0]
    values = right_in(vector.kind, vector.frames)
    if values.get(release) != vector.value or run_around(values, release) != vector.releases:
        return None
    profile = PROFILES[release]
    message = decode(vector.kind, vector.frames, profile)
    return form_of(vector.kind, vector.frames, profile, message)


def _consider(
    frame: Frame, story: Story, title: str, normal: Normal, chosen: dict[tuple[Any, ...], Vector]
) -> None:
    kind, message = kind_of_frame(frame), normal.message(frame)
    if kind.name == UNKNOWN or (message is None and kind.body is not None):
        return
    profile = PROFILES[story.release]
    form = form_of(kind.name, frame.frames, profile, message)
    known = chosen.get(form)
    if known is not None:
        if story.release not in known.seen_in:
            chosen[form] = replace(known, seen_in=(*known.seen_in, story.release))
        return
    values = right_in(kind.name, frame.frames)
    if story.release not in values:
        return  # it does not say the same again, such as a tensor in an aux frame
    taken = {vector.name for vector in chosen.values()}
    chosen[form] = Vector(
        name=_free(f"{kind.name}{_subject(message, normal)}-{story.release}", taken),
        kind=kind.name,
        direction=frame.direction,
        releases=run_around(values, story.release),
        seen_in=(story.release,),
        source=f"{title}, {story.id}",
        frames=frame.frames,
        value=values[story.release],
    )


def _subject(message: Any, normal: Normal) -> str:
    """What a vector's name says besides the kind."""
    match message:
        case Add():
            text = normal.request(message.request.request_id)
        case UtilityCall():
            text = message.method
        case UtilityReply():
            failed = "-failed" if message.output.failure_message is not None else ""
            text = f"reply-{normal.methods.get(message.output.call_id, 'notice')}{failed}"
        case RequestBatch():
            rows = [normal.request(row.request_id) for row in message.outputs]
            ends = [row.finish_reason.name for row in message.outputs if row.finish_reason]
            text = "-".join([*rows, *ends]) or "batch"
        case WaveComplete():
            text = "wave-complete"
        case StartWave():
            text = "start-wave"
        case _:
            return ""
    return "-" + re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _free(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(f"{name}-{n}" for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
