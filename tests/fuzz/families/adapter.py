"""Lines of an adapter: the parser, and the conversation that acts on them."""

from __future__ import annotations

import json
from random import Random  # noqa: TID251
from typing import Any

import msgspec

from client.protocol.profiles import RELEASES
from harness.targets.adapter.lines import EventLine, Line
from harness.targets.adapter.parsing import LineError, parse
from tests.fuzz.model import Finding, Input
from tests.fuzz.texts import broken_json

ERROR_CHARS_MAX = 3_000
SEEDS: tuple[dict[str, Any], ...] = (
    {"say": "hello", "version": 1, "name": "mine", "capabilities": ["op.generate"], "releases": ["0.33.0"], "schemes": ["tcp"]},
    {"say": "reply", "id": 3, "result": {"healthy": True}},
    {"say": "reply", "id": 3, "error": {"name": "Transport", "message": "gone"}},
    {"say": "output", "op": "a", "tokens": [1, 2], "finish": "stop", "text": "x"},
    {"say": "ended", "op": "a", "outcome": "finished", "finish": "stop", "value": [1, {"a": None}]},
    {"say": "waiting", "gate": "g", "change": 1},
    {"say": "broken", "message": "no"},
    {"say": "event", "kind": "health-failed", "fields": {"error": "Decode", "message": "m", "first": True}},
    {"say": "event", "kind": "request-registered", "fields": {"request_id": "r", "engine": 0, "explicit_rank": None, "wave": 1}},
)  # fmt: skip


class AdapterLines:
    """One line of an adapter."""

    name = "adapter"

    def make(self, rng: Random) -> Input:
        """Draw one input."""
        return Input(RELEASES[-1], "line", (broken_json(rng.choice(SEEDS), rng),))

    def check(self, given: Input) -> str:
        """Parse it; what is taken says the same when it is written again."""
        raw = b"".join(given.frames)
        try:
            line = parse(raw)
        except LineError as error:
            if len(str(error)) > ERROR_CHARS_MAX:
                raise Finding(f"the error is {len(str(error))} characters long") from error
            return "refused LineError"
        self._once(raw)
        self._again(line)
        return f"accepted {type(line).__name__}"

    @staticmethod
    def _once(raw: bytes) -> None:
        def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
            if len(dict(found)) != len(found):
                raise Finding("a key that stands twice was taken")
            return dict(found)

        def constant(word: str) -> None:
            raise Finding(f"{word} was taken, which JSON has not")

        json.loads(raw, object_pairs_hook=pairs, parse_constant=constant)

    @staticmethod
    def _again(line: Line) -> None:
        is_event = isinstance(line, EventLine)
        plain = line.model_dump(exclude={"fields"} if is_event else None)
        if is_event:
            plain["fields"] = line.fields
        again = parse(msgspec.json.encode(plain))
        if again != line:
            raise Finding(f"reads otherwise when written again: {line!r} and {again!r}")

    def close(self) -> None:
        """Nothing is held."""
