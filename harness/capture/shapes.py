"""Field lists: for each kind of message, which fields it was seen with, where, and as what.

A field is named, so that one which only moved is not taken for a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from client.protocol.messages import UtilityCall
from harness.capture import names, tree
from harness.capture.kinds import Kind, kind_of_frame
from harness.capture.normal import Normal, spoken
from harness.capture.take import Capture

_FREE = ("kv_transfer_params", "trace_headers", "logit_bias")
"""Maps whose keys are the caller's, not the protocol's."""


@dataclass(slots=True)
class FieldShape:
    """How one field was seen.

    Attributes:
        position: in its array, or ``None`` for a key of a map or an element of a list.
        types: as written: ``float32``, ``str`` …
        lengths: of the array, where it stands for a struct; else empty.
    """

    position: int | None = None
    types: set[str] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        """How it is written: types, and the lengths of a struct."""
        lengths = " or ".join(str(length) for length in sorted(self.lengths))
        types = " or ".join(sorted(self.types))
        return f"{types} of {lengths}" if lengths else types


@dataclass(slots=True)
class MessageShape:
    """One kind of message: its direction, how often it was seen, its fields by name."""

    title: str
    direction: str
    count: int = 0
    fields: dict[str, FieldShape] = field(default_factory=dict)


def shapes_of(capture: Capture, stories: Iterable[str]) -> dict[str, MessageShape]:
    """Return the shapes of all messages in these stories, by kind; utilities by method too.

    Args:
        capture: where from.
        stories: ids; others are left out, so that two captures can be compared.
    """
    found: dict[str, MessageShape] = {}
    wanted = set(stories)
    for story in capture.stories:
        if story.id not in wanted:
            continue
        normal = Normal(story)
        for frame in spoken(story.frames, normal):
            kind = kind_of_frame(frame)
            message = normal.message(frame)
            method = message.method if isinstance(message, UtilityCall) else ""
            name = f"{kind.name} {method}".rstrip()
            title = f"{kind.title} {method}".rstrip()
            shape = found.setdefault(name, MessageShape(title, frame.direction))
            shape.count += 1
            if normal.profile is not None:
                schema = names.schema_of(kind.name, normal.profile, method)
                _add(shape, kind, frame.frames, schema)
    return found


def _add(shape: MessageShape, kind: Kind, frames: tuple[bytes, ...], schema: names.Schema) -> None:
    if kind.body is None or kind.body >= len(frames) or not frames[kind.body]:
        return
    try:
        root = tree.read_tree(frames[kind.body], trailing=kind.trailing)
    except tree.TreeError:
        shape.fields.setdefault("(not msgpack)", FieldShape())
        return
    skipped: list[names.Path] = []
    for path, node in root.walk():
        if any(path[: len(above)] == above for above in skipped):
            continue
        name = names.label(schema, path, general=True) or "(body)"
        if name.rpartition(".")[2] in _FREE:
            skipped.append(path)
        one = shape.fields.setdefault(name, FieldShape())
        one.types.add(node.kind if node.kind != tree.EXT else node.type_name)
        if path and isinstance(path[-1], int) and not name.endswith("[]"):
            one.position = path[-1]
        if node.kind == tree.ARRAY and names.schema_at(schema, path).is_struct:
            one.lengths.add(len(node.items))


# --- two side by side -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that is not the same in both; ``None``: it is not there."""

    name: str
    before: FieldShape | None
    after: FieldShape | None

    @property
    def moved(self) -> bool:
        """Whether it only stands at another position."""
        one, other = self.before, self.after
        return one is not None and other is not None and one.text == other.text


@dataclass(frozen=True, slots=True)
class MessageChange:
    """A kind of message that is not the same in both; ``only``: ``a`` or ``b`` if one has it."""

    name: str
    title: str
    direction: str
    only: str
    fields: tuple[FieldChange, ...]


def compare_shapes(
    first: Mapping[str, MessageShape], second: Mapping[str, MessageShape]
) -> list[MessageChange]:
    """Return what differs, by kind of message, in the order in which kinds were seen."""
    changes = []
    for name in dict.fromkeys([*first, *second]):
        before, after = first.get(name), second.get(name)
        one = before or after
        assert one is not None
        if before is None or after is None:
            only = "a" if after is None else "b"
            fields = tuple(
                FieldChange(n, f if before else None, f if after else None)
                for n, f in one.fields.items()
            )
            changes.append(MessageChange(name, one.title, one.direction, only, fields))
            continue
        inner = tuple(
            FieldChange(field_name, old, new)
            for field_name in dict.fromkeys([*before.fields, *after.fields])
            if (old := before.fields.get(field_name)) != (new := after.fields.get(field_name))
        )
        if inner:
            changes.append(MessageChange(name, one.title, one.direction, "", inner))
    return changes
