"""Decoded messages as JSON values, for reports and golden vectors.

What JSON has not is an object with one telling key: ``{"hex": …}`` for bytes, ``{"ext": code,
"hex": …}`` for an extension, ``{"tensor": …}``, ``{"map": [[key, value], …]}`` for a map with
keys that are no strings, ``{"float": "nan"}`` for what is no number.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any

import msgpack
import msgspec

from client.protocol.messages import Tensor


def plain(value: Any) -> Any:
    """Return ``value`` in JSON's terms; a message becomes ``{"message": class, field: …}``."""
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    if isinstance(value, msgpack.ExtType):
        return {"ext": value.code, "hex": bytes(value.data).hex()}
    if isinstance(value, msgpack.Timestamp):
        return {"ext": -1, "hex": value.to_bytes().hex()}
    if isinstance(value, Tensor):
        shown = {"dtype": value.dtype, "shape": list(value.shape), "hex": value.data.hex()}
        return {"tensor": shown}
    if isinstance(value, msgspec.Struct):
        inner = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        return {"message": type(value).__name__, **inner}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: plain(item) for key, item in value.items()}
        return {"map": [[plain(key), plain(item)] for key, item in value.items()]}
    return [plain(item) for item in value]
