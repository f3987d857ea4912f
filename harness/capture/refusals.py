"""Why releases refuse a message, and at which byte."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from client.protocol.codec import CodecError, DecodeError
from client.protocol.codec_output_fields import read_output
from client.protocol.profiles import PROFILES, Profile
from harness.capture import names, tree
from harness.capture.explanation import Refusal
from harness.capture.kinds import Kind


def refusals_of(
    kind: Kind,
    parts: Sequence[bytes],
    root: tree.Node | None,
    errors: dict[str, CodecError],
    broken: Refusal | None,
) -> list[Refusal]:
    """Group releases that refuse for the same reason, oldest first."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for release, error in errors.items():
        grouped.setdefault((type(error).__name__, str(error)), []).append(release)
    found = []
    for (name, text), releases in grouped.items():
        offset = broken.offset if broken is not None else None
        if broken is None and root is not None and kind.body is not None:
            error = errors[releases[0]]
            offset = _offset(kind, parts, root, error, PROFILES[releases[0]])
        frame = None if offset is None else kind.body
        found.append(Refusal(tuple(releases), name, text, frame, offset))
    return found


def _offset(
    kind: Kind, parts: Sequence[bytes], root: tree.Node, error: CodecError, profile: Profile
) -> int | None:
    """Find the value that an error is about: the struct it names, and the field in it."""
    if not isinstance(error, DecodeError) or error.field == "frames":
        return None
    struct, _, name = error.field.partition(".")
    schema = names.schema_of(kind.name, profile)
    for path, node in root.walk():
        if names.struct_name(kind.name, path) != struct:
            continue
        if struct == "EngineCoreOutput" and _row_is_taken(kind, parts, node, profile):
            continue
        inner = _child(node, schema, path, name.partition(".")[0]) if name else None
        return (inner or node).start
    return root.start


def _row_is_taken(kind: Kind, parts: Sequence[bytes], node: tree.Node, profile: Profile) -> bool:
    assert kind.body is not None
    raw = parts[kind.body][node.start : node.end]
    try:
        value = msgpack.unpackb(raw, raw=False, strict_map_key=False)
        read_output(profile, value, parts[kind.body :])
    except (CodecError, ValueError, msgpack.UnpackException):
        return False
    return True


def _child(node: tree.Node, schema: names.Schema, path: names.Path, name: str) -> tree.Node | None:
    for step, item in node.walk():
        if len(step) == 1 and names.label(schema, (*path, *step)).rpartition(".")[2] == name:
            return item
    return None
