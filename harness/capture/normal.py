"""What differs from run to run although nothing happened: ids, times, ports, paths.

Each is replaced by a word in angle brackets, so that two runs of one release give equal text, and
two releases differ only where they behave apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from client.protocol.codec import CodecError
from client.protocol.ids import FENCE_METHOD
from client.protocol.messages import (
    Abort,
    Add,
    EngineCoreOutputs,
    RequestBatch,
    StartDpWave,
    UtilityCall,
    UtilityReply,
)
from client.protocol.profiles import PROFILES, Profile
from harness.capture.explain import decode
from harness.capture.kinds import kind_of_frame
from harness.capture.plain import plain
from harness.capture.recording import Frame
from harness.capture.take import Story

# Applied in this order; the first are the more specific ones.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"(?:tcp|http|https|ipc|sim)://[^\s\"',\])}]+"), "<address>"),
    (re.compile(r"\b(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\]):\d{2,5}\b"), "<address>"),
    (re.compile(r"(?<![\w.])/(?:[\w.@+~-]+/)+[\w.@+~-]*"), "<path>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<hex>"),
    (re.compile(r"-[0-9a-f]{8}\b"), "-<id>"),
    (re.compile(r"\.rs:\d+:\d+"), ".rs:<place>"),
    (re.compile(r"\b1[5-9]\d{8}(?:\.\d+)?\b"), "<time>"),
)
"""Seconds since 1970 have ten digits and begin with 1.5 to 1.9 from 2017 to 2033."""


class Normal:
    """Normalises what belongs to one story."""

    def __init__(self, story: Story) -> None:
        self._profile = PROFILES.get(story.release)
        self._ids: dict[str, str] = {}
        self._calls: dict[int, int] = {}
        self.fences: frozenset[int] = frozenset()
        self.methods: dict[int, str] = {}
        """Method of each utility call, by its id."""
        self._learn(story)

    # --- learning ---------------------------------------------------------------------------

    def _learn(self, story: Story) -> None:
        """Learn the ids of requests from calls and ADDs, and those of utility calls."""
        for event in story.events:
            if event["event"] == "CallStarted":
                fields = event["fields"]
                self._ids[str(fields["external_id"])] = f"<{fields['op']}>"
        numbers: set[int] = set()
        fences: set[int] = set()
        for frame in story.frames:
            message = self.message(frame)
            if isinstance(message, Add):
                self._learn_request(message)
            elif isinstance(message, UtilityCall):
                self.methods[message.call_id] = message.method
                (fences if is_fence_call(message) else numbers).add(message.call_id)
        # Ids grow, and what the fences took of them is not part of the story.
        self._calls = {number: place for place, number in enumerate(sorted(numbers), start=1)}
        self.fences = frozenset(fences)

    def _learn_request(self, message: Add) -> None:
        request = message.request
        external = request.external_req_id
        known = None if external is None else self._ids.get(external)
        if known is None:
            known = f"<request {len(self._ids) + 1}>"
            if external is not None:
                self._ids[external] = known
        self._ids.setdefault(request.request_id, f"{known[:-1]} inner>")

    def message(self, frame: Frame) -> Any:
        """Decode a recorded message in the story's own release; ``None`` if it cannot be."""
        if self._profile is None:
            return None
        try:
            return decode(kind_of_frame(frame).name, frame.frames, self._profile)
        except CodecError:
            return None

    @property
    def profile(self) -> Profile | None:
        """The release of the story, ``None`` if this program does not know it."""
        return self._profile

    def is_fence(self, message: Any) -> bool:
        """Whether a message belongs to a fence of the harness."""
        if isinstance(message, UtilityCall):
            return is_fence_call(message)
        return isinstance(message, UtilityReply) and message.output.call_id in self.fences

    # --- replacing --------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """Replace ids, times, ports and paths in a text."""
        # Longer ones first: an inner id begins with the outer one.
        for name in sorted(self._ids, key=len, reverse=True):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", self._ids[name], text)
        for pattern, word in _PATTERNS:
            text = pattern.sub(word, text)
        return text

    def value(self, value: Any) -> Any:
        """Replace them inside a JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.value(item) for item in value]
        return value

    def request(self, name: str) -> str:
        """Name a request; both its ids give one name."""
        return self._ids.get(name, f"<{name}>").replace(" inner>", ">")

    def call(self, number: int) -> str:
        """Name a utility call."""
        return str(self._calls.get(number, f"unknown {number}"))

    def summary(self, frame: Frame) -> str:
        """Say in one line what a recorded message is, without what differs between runs."""
        message, kind = self.message(frame), kind_of_frame(frame)
        match message:
            case Add():
                return self._add(message)
            case Abort():
                return f"ABORT {' '.join(self.request(i) for i in message.request_ids)}"
            case UtilityCall():
                args = self.value(plain(message.args))
                text = ", ".join(json.dumps(item, ensure_ascii=False) for item in args)
                return f"UTILITY {message.method}({text}) call {self.call(message.call_id)}"
            case StartDpWave():
                exclude = message.exclude_engine_index
                return f"START_DP_WAVE wave {message.wave} exclude {exclude}"
            case UtilityReply():
                failed = message.output.failure_message
                what = f"failure {failed!r}" if failed is not None else repr(message.output.value)
                return f"reply to call {self.call(message.output.call_id)}: {what}"
            case RequestBatch():
                return self._batch(message)
            case None:
                return kind.title
        return _facts(kind.title, message)

    def _add(self, message: Add) -> str:
        request = message.request
        parts = [f"ADD {self.request(request.request_id)}"]
        if request.data_parallel_rank is not None:
            parts.append(f"rank {request.data_parallel_rank}")
        parts.append(f"wave {request.current_wave}")
        if message.aux:
            parts.append(f"aux {len(message.aux)}")
        return " ".join(parts)

    def _batch(self, message: RequestBatch) -> str:
        rows = [
            f"{self.request(row.request_id)} {list(row.new_token_ids)}"
            + ("" if row.finish_reason is None else f" {row.finish_reason.name.lower()}")
            for row in message.outputs
        ]
        if message.finished_requests is not None:
            rows.append(f"finished {' '.join(map(self.request, message.finished_requests))}")
        if message.scheduler_stats is not None:
            rows.append("stats")
        return f"outputs: {'; '.join(rows)}"


def is_fence_call(message: UtilityCall) -> bool:
    """Whether a call is a fence; a real frontend passes the method on as an argument."""
    return FENCE_METHOD in (message.method, *message.args[:1])


def _facts(title: str, message: Any) -> str:
    """Waves of a notice; nothing else of the remaining messages is worth a line."""
    if isinstance(message, EngineCoreOutputs):
        return title
    wave = getattr(message, "wave", None)
    return f"{type(message).__name__} wave {wave}" if wave is not None else title


def spoken(frames: Iterable[Frame], normal: Normal) -> list[Frame]:
    """Return the messages that belong to the story: all but those of fences."""
    return [frame for frame in frames if not normal.is_fence(normal.message(frame))]
