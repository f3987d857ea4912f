"""Two captures side by side: field lists, order of messages at each engine, answers to callers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.capture.normal import Normal, spoken
from harness.capture.parts import loads_flat
from harness.capture.recording import TO_ENGINE
from harness.capture.shapes import MessageChange, compare_shapes, shapes_of
from harness.capture.take import PLAYED, Capture, Story

ANSWERS = ("CallEnded", "UtilityEnded", "RequestEnded")
"""Events that tell how an operation ended, by its ``op``."""
_NOT_COMPARED = ("op", "method", "what", "via")


@dataclass(frozen=True, slots=True)
class OrderChange:
    """What reached one engine at one socket, as lines of a unified diff."""

    story: str
    engine: int
    socket: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """One fact that a caller was told: ``before`` and ``after`` in JSON's terms."""

    story: str
    op: str
    fact: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class StoryChange:
    """A story that was not played in both."""

    story: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything in which two captures differ.

    Attributes:
        compared: stories that were played in both.
        changed: those of them with a difference in order or answers.
    """

    compared: tuple[str, ...]
    stories: tuple[StoryChange, ...]
    fields: tuple[MessageChange, ...]
    order: tuple[OrderChange, ...]
    answers: tuple[AnswerChange, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return not (self.stories or self.fields or self.order or self.answers)

    @property
    def changed(self) -> tuple[str, ...]:
        """Stories that went another way."""
        names = [change.story for change in self.order]
        names += [change.story for change in self.answers]
        return tuple(name for name in self.compared if name in names)


def compare(first: Capture, second: Capture) -> Difference:
    """Compare two captures, story by story.

    Field lists are those of the stories that were played in both: a message that belongs to a
    story which one release does not have is no difference of its own.
    """
    before = {story.id: story for story in first.stories}
    after = {story.id: story for story in second.stories}
    both = tuple(
        name
        for name, story in before.items()
        if story.status == PLAYED and name in after and after[name].status == PLAYED
    )
    missing = tuple(
        StoryChange(name, _fate(before.get(name)), _fate(after.get(name)))
        for name in dict.fromkeys([*before, *after])
        if name not in both and _fate(before.get(name)) != _fate(after.get(name))
    )
    order: list[OrderChange] = []
    answers: list[AnswerChange] = []
    for name in both:
        order += _order(before[name], after[name])
        answers += _answers(before[name], after[name])
    shapes = compare_shapes(shapes_of(first, both), shapes_of(second, both))
    return Difference(both, missing, tuple(shapes), tuple(order), tuple(answers))


def _fate(story: Story | None) -> str:
    if story is None:
        return "not in the capture"
    return story.status if story.status == PLAYED else f"{story.status}: {story.reason}"


# --- order ----------------------------------------------------------------------------------


def _order(before: Story, after: Story) -> list[OrderChange]:
    old, new = _sequences(before), _sequences(after)
    changes = []
    for key in sorted({*old, *new}):
        lines = difflib.unified_diff(old.get(key, []), new.get(key, []), n=1, lineterm="")
        # The two lines of file names and the places in brackets say nothing here.
        shown = tuple(line for line in list(lines)[2:] if not line.startswith("@@"))
        if shown:
            changes.append(OrderChange(before.id, key[0], key[1], shown))
    return changes


def _sequences(story: Story) -> dict[tuple[int, str], list[str]]:
    """What reached each engine, socket by socket: between sockets there is no order."""
    normal = Normal(story)
    found: dict[tuple[int, str], list[str]] = {}
    for frame in spoken(story.frames, normal):
        if frame.direction == TO_ENGINE:
            found.setdefault((frame.engine, frame.socket), []).append(normal.summary(frame))
    return found


# --- answers --------------------------------------------------------------------------------


def _answers(before: Story, after: Story) -> list[AnswerChange]:
    old, new = _facts(before), _facts(after)
    changes = []
    for op in dict.fromkeys([*old, *new]):
        one, other = old.get(op, {}), new.get(op, {})
        changes += [
            AnswerChange(before.id, op, fact, one.get(fact), other.get(fact))
            for fact in dict.fromkeys([*one, *other])
            if one.get(fact) != other.get(fact) and not _is_opened(fact, one, other)
        ]
    return changes


def _is_opened(fact: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a fact is nothing in one capture and has parts, told by themselves, in the other."""
    if one.get(fact) or other.get(fact):
        return False
    return any(name.startswith((f"{fact}.", f"{fact}[")) for name in {*one, *other})


def _facts(story: Story) -> dict[str, dict[str, Any]]:
    """What each caller was told, normalised; startup and health are callers too."""
    normal = Normal(story)
    found: dict[str, dict[str, Any]] = {}
    for event in story.events:
        name, fields = event["event"], event["fields"]
        if name == "CallOutput":
            told = found.setdefault(fields["op"], {})
            told["tokens"] = [*told.get("tokens", []), *fields["tokens"]]
            told["text"] = told.get("text", "") + fields.get("text", "")
        elif name in ANSWERS:
            told = found.setdefault(fields["op"], {})
            for key, value in fields.items():
                if key not in _NOT_COMPARED:
                    told.update(_flat(key, _opened(value), normal))
        elif name in ("ConnectEnded", "HealthSample", "ProcessExited"):
            told = found.setdefault({"ConnectEnded": "(startup)"}.get(name, "(health)"), {})
            for key, value in fields.items():
                told.update(_flat(key, _opened(value), normal))
    return found


def _opened(value: Any) -> Any:
    """Open a body that is JSON, so that its keys are compared one by one."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return loads_flat(value, lenient=True)
        except ValueError:
            return value
    return value


def _flat(name: str, value: Any, normal: Normal) -> Mapping[str, Any]:
    if isinstance(value, dict) and value:
        found: dict[str, Any] = {}
        for key, item in value.items():
            found.update(_flat(f"{name}.{key}", item, normal))
        return found
    if isinstance(value, Sequence) and not isinstance(value, str) and _has_parts(value):
        found = {}
        for place, item in enumerate(value):
            found.update(_flat(f"{name}[{place}]", item, normal))
        return found
    if name.endswith((".created", ".created_at")) and isinstance(value, int | float):
        return {name: "<time>"}
    return {name: normal.value(value)}


def _has_parts(value: Sequence[Any]) -> bool:
    return any(isinstance(item, dict | list) for item in value)
