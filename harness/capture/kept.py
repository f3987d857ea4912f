"""What a failure file keeps of a run that cannot be played again: payloads and bytes.

Events themselves are lines of the file; here is what a line has no room for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from harness.capture.listening import Listening
from harness.capture.recording import Direction, Frame
from harness.trace.events import Record
from harness.trace.jsonl import to_json

SIZE_MAX = 6 << 20
"""Characters of what is kept; what comes after has neither payload nor bytes. A failure file may
be 16 MiB in all."""
FRAME_MAX = 4_096
"""Bytes of one frame that are kept."""


class KeptMessage(msgspec.Struct, frozen=True):
    """One message at an engine's socket.

    Attributes:
        frames: hex of each, cut to ``FRAME_MAX`` bytes.
        sizes: whole lengths in bytes.
        events: numbers of the events that it carried.
    """

    engine: int
    socket: str
    direction: Direction
    frames: list[str]
    sizes: list[int]
    events: list[int]


class KeptRun(msgspec.Struct, frozen=True):
    """Payloads and bytes of a run.

    Attributes:
        fields: payload of each event, by its number; shorter than the run if there was no room.
        messages: in order.
    """

    fields: list[dict[str, Any]]
    messages: list[KeptMessage]


def keep(records: Sequence[Record], listening: Listening, most: int) -> dict[str, Any]:
    """What to keep of a run, in JSON's terms.

    Args:
        records: its events.
        listening: who listened at the engines' sockets.
        most: events that the file has lines for.
    """
    room = SIZE_MAX
    fields: list[dict[str, Any]] = []
    for record in records[:most]:
        told = to_json(record)["fields"]
        room -= len(json.dumps(told, default=str))
        if room < 0:
            break
        fields.append(told)
    frames, of_event = listening.told()
    events: list[list[int]] = [[] for _ in frames]
    for seq, places in of_event.items():
        for place in places:
            events[place].append(seq)
    messages: list[KeptMessage] = []
    for frame, numbers in zip(frames, events, strict=True):
        room -= sum(2 * min(len(part), FRAME_MAX) for part in frame.frames)
        if room < 0:
            break
        if numbers and numbers[0] < most:
            messages.append(_message(frame, numbers))
    found: dict[str, Any] = msgspec.to_builtins(KeptRun(fields, messages))
    return found


def _message(frame: Frame, events: list[int]) -> KeptMessage:
    return KeptMessage(
        frame.engine,
        frame.socket,
        frame.direction,
        [part[:FRAME_MAX].hex() for part in frame.frames],
        [len(part) for part in frame.frames],
        events,
    )


def read_kept(document: dict[str, Any]) -> KeptRun:
    """Read what ``keep`` made.

    Raises:
        msgspec.ValidationError: it is something else.
    """
    return msgspec.convert(document, KeptRun)


def frames_of(kept: KeptRun) -> list[Frame]:
    """The messages as they were recorded, as far as they were kept.

    Raises:
        ValueError: a frame is no hex.
    """
    return [
        Frame(
            n,
            0,
            message.engine,
            message.socket,
            message.direction,
            tuple(bytes.fromhex(part) for part in message.frames),
        )
        for n, message in enumerate(kept.messages)
    ]
