"""Msgpack in and out, and the place of a value for errors.

The library is `msgpack`; nothing else here or elsewhere knows its types but ``ExtType``, which
stands for raw bytes of a tensor and for extension types in free-form values. Refused are, although
the Rust client takes them in free-form values: a map key that is an array or a map, a key that
stands twice, an extension type below zero other than a timestamp, and what nests too deep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgpack

from client.protocol.codec_errors import DecodeError, EncodeError
from client.protocol.messages import Tensor

RAW_VIEW = 3
"""Extension type of inline tensor bytes (``CUSTOM_TYPE_RAW_VIEW``)."""
BODY_BYTES_MAX = 64 << 20
"""Longest body of a message; aux frames, which nobody looks into, are not bodies."""
NESTING_MAX = 128
"""Arrays and maps inside each other in one message. What walks through a message may recurse: this
is far below what the interpreter allows, and far above what any message of the protocol needs."""
TOO_DEEP = f"arrays and maps nest deeper than {NESTING_MAX} levels"
_CONTAINERS = bytes(range(0x80, 0xA0)) + bytes(range(0xDC, 0xE0))
_NESTS = frozenset({list, dict})
_NO_CONTAINERS = bytes(sorted(set(range(256)) - set(_CONTAINERS)))
PACK_BUFFER_BYTES = 4096
"""First size of a packer's buffer, which grows; the library's own choice is 1 MiB for each."""


class Where(NamedTuple):
    """The place of a value, for errors: whole message, then struct and field."""

    message: str
    field: str


def unpack(body: bytes, message: str, *, trailing: bool = False) -> Any:
    """Read one msgpack value.

    Lengths in array, map and string headers are bounded by the size of ``body`` itself, so that
    no short message can ask for much memory. Values nest ``NESTING_MAX`` deep at most.

    Args:
        body: one frame.
        message: name of the message, for errors.
        trailing: accept (and drop) bytes behind the value.

    Raises:
        DecodeError: ``body`` is not one msgpack value, or one that nests too deep.
    """
    if len(body) > BODY_BYTES_MAX:
        reason = f"a body of {len(body)} bytes, at most {BODY_BYTES_MAX} are read"
        raise DecodeError(message, message, reason)
    try:
        value = msgpack.unpackb(
            body, raw=False, strict_map_key=False, object_pairs_hook=_map_of_pairs
        )
    except msgpack.ExtraData as error:
        if not trailing:
            reason = f"{len(error.extra)} bytes behind the value"
            raise DecodeError(message, message, reason) from error
        value = error.unpacked
    except msgpack.StackError as error:
        # The library has a bound of its own, above ours.
        raise DecodeError(message, message, TOO_DEEP) from error
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        # TypeError: a map key that cannot be hashed (array, map).
        said = f"{error}" or "a byte that begins no value"  # the library says nothing of 0xC1
        reason = f"not msgpack: {type(error).__name__}: {said}"
        raise DecodeError(message, message, reason) from error
    if _could_be_deep(body) and _is_deep(value):
        raise DecodeError(message, message, TOO_DEEP)
    return value


def _map_of_pairs(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Make a map, unless a key stands in it twice: one of the two values would be lost silently.

    No encoder of a dict makes such a map, and the Rust client refuses it for a struct.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "a map has one key twice"
        raise ValueError(msg)
    return found


def _could_be_deep(body: bytes) -> bool:
    """Whether there are bytes enough that may begin an array or a map: two passes in C."""
    return len(body) > NESTING_MAX and len(body.translate(None, _NO_CONTAINERS)) > NESTING_MAX


def refuse_deep(body: bytes, message: str) -> None:
    """Raise ``EncodeError`` for a body that nobody would read, since it nests too deep."""
    if _could_be_deep(body) and _is_deep(msgpack.unpackb(body, raw=False, strict_map_key=False)):
        raise EncodeError(message, TOO_DEEP)


def _is_deep(value: Any) -> bool:
    """Whether arrays and maps stand inside more than ``NESTING_MAX`` others; level by level."""
    level = [value]
    for _ in range(NESTING_MAX + 1):
        inner = [
            item.values() if type(item) is dict else item for item in level if type(item) in _NESTS
        ]
        if not inner:
            return False
        level = [child for items in inner for child in items]
    return True


class BodyPacker:
    """Writes values as msgpack and moves large tensors into aux frames.

    Tensors may sit anywhere in a value. One that is shorter than ``inline_below`` bytes, or has
    no dimensions, is inlined; a longer one becomes an index into the message's frames, counted
    from the body frame. ``inline_below=None`` inlines everything.

    Not re-entrant and not thread-safe: one per codec, used by one loop.
    """

    def __init__(self, *, inline_below: int | None) -> None:
        # An object of its own: were it ``self``, packers would live until a garbage collection.
        self._rest = _Rest(inline_below)
        self._packer = msgpack.Packer(
            default=self._rest.form, use_bin_type=True, buf_size=PACK_BUFFER_BYTES
        )
        self._packer_f32: msgpack.Packer | None = None

    def begin(self, aux: Sequence[bytes] = ()) -> None:
        """Start a message whose first aux frames are given."""
        self._rest.aux = list(aux)

    @property
    def aux(self) -> list[bytes]:
        """Frames that belong behind the body packed since ``begin``."""
        return self._rest.aux

    def pack(self, value: Any, message: str, *, single_float: bool = False) -> bytes:
        """Return ``value`` as msgpack; ``single_float``: floats take 32 bits.

        Raises:
            EncodeError: it holds something that msgpack has not.
        """
        packer = self._single() if single_float else self._packer
        try:
            packed: bytes = packer.pack(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise EncodeError(message, f"{type(error).__name__}: {error}") from error
        if len(packed) > BODY_BYTES_MAX:
            reason = f"a body of {len(packed)} bytes, at most {BODY_BYTES_MAX} are read"
            raise EncodeError(message, reason)
        refuse_deep(packed, message)
        return packed

    def _single(self) -> msgpack.Packer:
        """The packer of 32 bits, made when it is needed: most codecs write none."""
        if self._packer_f32 is None:
            self._packer_f32 = msgpack.Packer(
                default=self._rest.form,
                use_bin_type=True,
                use_single_float=True,
                buf_size=PACK_BUFFER_BYTES,
            )
        return self._packer_f32

    def array_header(self, length: int) -> bytes:
        """Return the header of an array whose elements follow, packed one by one."""
        header: bytes = self._packer.pack_array_header(length)
        return header

    def map_header(self, length: int) -> bytes:
        """Return the header of a map whose keys and values follow."""
        header: bytes = self._packer.pack_map_header(length)
        return header


class _Rest:
    """What msgpack has no form for: tensors, and maps and sequences other than dict and list."""

    def __init__(self, inline_below: int | None) -> None:
        self._inline_below = inline_below
        self.aux: list[bytes] = []

    def form(self, value: object) -> Any:
        """Return what is packed in place of ``value``."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, Sequence):
            return list(value)
        msg = f"{type(value).__name__} has no msgpack form"
        raise TypeError(msg)

    def _tensor(self, tensor: Tensor) -> list[Any]:
        limit = self._inline_below
        data: Any
        if limit is None or not tensor.shape or len(tensor.data) < limit:
            data = msgpack.ExtType(RAW_VIEW, tensor.data)
        else:
            self.aux.append(tensor.data)
            data = len(self.aux)
        return [tensor.dtype, list(tensor.shape), data]
