"""Tensors on the wire: ``[dtype, shape, data]`` to ``Tensor``, with every length checked.

``data`` is inline bytes (extension type 3) or an index into the message's frames, counted from
the body frame: the body is 0, the first aux frame 1. A triple of the wrong form is a
``DecodeError``; one that cannot be resolved is an ``ExtValueDecodeError``.

Source: vLLM ``vllm/v1/serial_utils.py`` (MsgpackEncoder, MsgpackDecoder), Rust
``engine-core-client/src/protocol/tensor.rs``, ``logprobs/array.rs``; checked on the binaries.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import msgpack

from client.protocol.codec_errors import DecodeError
from client.protocol.codec_msgpack import RAW_VIEW, Where
from client.protocol.codec_values import (
    U64_MAX,
    read_text,
    refuse,
    refuse_ext,
    shown,
)
from client.protocol.messages import Tensor

TENSOR_ELEMENTS = 3
_DTYPE = re.compile(
    r"[<>=|]?(?:b1|[iu][1248]|f[248]|bool|u?int(?:8|16|32|64)|b?float16|float(?:32|64))"
)
_BITS = re.compile(r"\d+$")
_BITS_PER_BYTE = 8
_INT32 = ("i4", "int32")
_INT64 = ("i8", "int64")
INTEGERS = _INT32 + _INT64
FLOAT32 = ("f4", "float32")


def item_size(dtype: str) -> int | None:
    """Bytes for each element of a numpy (``<f4``) or torch (``float32``) dtype string."""
    if _DTYPE.fullmatch(dtype) is None:
        return None
    name = dtype.lstrip("<>=|")
    if name == "bool":
        return 1
    digits = _BITS.search(name)
    number = int(digits[0]) if digits else 0
    is_numpy = len(name) == 2
    return number if is_numpy else number // _BITS_PER_BYTE


def base_dtype(tensor: Tensor) -> str:
    """Return the dtype without its byte order, e.g. ``i4``."""
    return tensor.dtype.lstrip("<>=|")


def tensor_ints(tensor: Tensor) -> tuple[int, ...]:
    """Return the elements of an int32 or int64 tensor."""
    code = "i" if base_dtype(tensor) in _INT32 else "q"
    order = tensor.dtype[0] if tensor.dtype[0] in "<>" else "="
    count = len(tensor.data) // struct.calcsize(f"{order}{code}")
    return struct.unpack(f"{order}{count}{code}", tensor.data)


def looks_like_tensor(value: Any) -> bool:
    """Whether a value has the form of a tensor: known dtype, dimensions, data."""
    return (
        type(value) is list
        and len(value) == TENSOR_ELEMENTS
        and type(value[0]) is str
        and item_size(value[0]) is not None
        and _is_shape(value[1])
        and (type(value[2]) is int or isinstance(value[2], msgpack.ExtType))
    )


def _is_shape(value: Any) -> bool:
    return type(value) is list and all(type(n) is int and n >= 0 for n in value)


def _product(shape: Sequence[int], size: int) -> int | None:
    """Bytes of so many elements; ``None`` beyond 64 bits.

    Stops there: the product of thousands of large dimensions takes minutes, and more digits than
    Python is willing to print.
    """
    if 0 in shape:
        return 0
    count = size
    for dimension in shape:
        count *= dimension
        if count > U64_MAX:
            return None
    return count


def read_tensor(
    value: Any, where: Where, frames: Sequence[bytes], *, dtype_is_form: bool = False
) -> Tensor:
    """Resolve one tensor.

    Args:
        value: the decoded ``[dtype, shape, data]``.
        where: its place, for errors.
        frames: the message's frames from the body on.
        dtype_is_form: an unknown dtype counts as wrong form (≥ 0.30), not as unresolvable.

    Raises:
        DecodeError: no such triple, or data of another type or extension type.
        ExtValueDecodeError: unknown dtype, index out of range, or a length that is not
            shape product x item size.
    """
    if type(value) is not list or len(value) != TENSOR_ELEMENTS:
        raise refuse(where, "[dtype, shape, data]", value)
    dtype, shape, data = read_text(value[0], where), value[1], value[2]
    if not _is_shape(shape):
        raise refuse(where, "array of dimensions", shape)
    is_inline = isinstance(data, msgpack.ExtType)
    if is_inline and data.code != RAW_VIEW:
        reason = f"unsupported extension type code {data.code}"
        raise DecodeError(where.message, where.field, reason)
    if not is_inline and (type(data) is not int or data < 0):
        raise refuse(where, "raw bytes or aux frame index", data)
    size = item_size(dtype)
    if size is None:
        reason = f"unsupported dtype string {shown(dtype)}"
        if dtype_is_form:
            raise DecodeError(where.message, where.field, reason)
        raise refuse_ext(where, reason)
    if not is_inline and data >= len(frames):
        raise refuse_ext(where, f"aux frame index {data} is out of range for {len(frames)} frames")
    raw = bytes(data.data if is_inline else frames[data])
    expected = _product(shape, size)
    if expected is None:
        raise refuse_ext(where, "byte length mismatch: the dimensions exceed 64 bits")
    if expected != len(raw):
        raise refuse_ext(where, f"byte length mismatch: expected {expected}, got {len(raw)}")
    return Tensor(dtype=dtype, shape=tuple(shape), data=raw)


def resolve_nested(value: Any, where: Where, frames: Sequence[bytes]) -> Any:
    """Resolve every tensor inside arrays and maps; everything else stays as it is."""
    if looks_like_tensor(value):
        return read_tensor(value, where, frames)
    if type(value) is list:
        return [resolve_nested(item, where, frames) for item in value]
    if type(value) is dict:
        return {key: resolve_nested(item, where, frames) for key, item in value.items()}
    return value
