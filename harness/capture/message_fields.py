"""Each value of a message: its name, how it is written, what it is, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from client.protocol.codec_tensors import item_size, looks_like_tensor
from client.protocol.profiles import Profile
from harness.capture import names, tree
from harness.capture.explanation import Field
from harness.capture.kinds import Kind

_SHOWN_CHARS = 60


def fields_of(
    kind: Kind, parts: Sequence[bytes], root: tree.Node | None, profile: Profile
) -> list[Field]:
    """Return the fields of a message whose body is ``root``, with the names of a release."""
    if root is None or kind.body is None:
        return []
    schema = names.schema_of(kind.name, profile)
    found = []
    told: list[names.Path] = []
    for path, node in root.walk():
        if any(path[: len(above)] == above for above in told):
            continue
        note = _tensor_note(node, parts[kind.body], parts[kind.body :])
        value = _shown(node) or _listed(node, names.schema_at(schema, path))
        if note or (value and node.items):
            told.append(path)
        found.append(
            Field(
                label=names.label(schema, path),
                depth=len(path),
                type=node.type_name,
                value="" if note else value,
                frame=kind.body,
                offset=node.start,
                length=node.end - node.start,
                note=note,
            )
        )
    return found


def _tensor_note(node: tree.Node, body: bytes, frames: Sequence[bytes]) -> str:
    """Describe ``[dtype, shape, data]``; ``""`` for everything else."""
    if node.kind != tree.ARRAY or len(node.items) != len(names.TENSOR.names):
        return ""
    try:
        value = msgpack.unpackb(body[node.start : node.end], raw=False, strict_map_key=False)
    except (ValueError, msgpack.UnpackException):
        return ""
    if not looks_like_tensor(value):
        return ""
    dtype, shape, data = value
    expected = item_size(dtype) or 0
    for dimension in shape:
        expected *= dimension
    if isinstance(data, int):
        if data >= len(frames):
            return f"tensor {dtype} {shape}: aux frame {data} of {len(frames) - 1} is not there"
        where, length = f"in aux frame {data}", len(frames[data])
    else:
        where, length = f"inline (ext {data.code})", len(data.data)
    fits = "" if length == expected else f", where {expected} are needed"
    return f"tensor {dtype} {shape}: {length} bytes {where}{fits}"


def _shown(node: tree.Node) -> str:
    if node.kind in (tree.ARRAY, tree.MAP):
        return ""
    if node.kind == tree.NIL:
        return "nil"
    if node.kind == tree.BOOL:
        return str(node.value).lower()
    text = node.value.hex() if node.kind in (tree.EXT, tree.BIN) else repr(node.value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def _listed(node: tree.Node, schema: names.Schema) -> str:
    """Show a list of scalars in one line; ``""`` for a struct and for what has deeper parts."""
    if node.kind != tree.ARRAY or schema.is_struct:
        return ""
    if not node.items:
        return "[]"
    if any(item.kind in (tree.ARRAY, tree.MAP) for item in node.items):
        return ""
    text = f"[{', '.join(_shown(item) for item in node.items)}]"
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
