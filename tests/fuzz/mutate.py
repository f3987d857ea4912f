"""Valid messages, broken on purpose: in their structure, in their bytes, and in their frames.

A message is a tree of what msgpack has, plus ``Raw`` for bytes that stand where a value should.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251
from typing import Any

import msgpack

_HOLE = 113
"""Extension type that marks the place of raw bytes until the body is packed."""
_HEADS = (0x90, 0x9F, 0x80, 0x8F, 0xC0, 0xC1, 0xC4, 0xC6, 0xC9, 0xCA, 0xCB, 0xCF, 0xD3, 0xD4, 0xD8, 0xD9, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF, 0xA0, 0xBF, 0xE0, 0xFF)  # fmt: skip

_SIZED = (
    (0xC4, 1), (0xC5, 2), (0xC6, 4), (0xC7, 1), (0xC8, 2), (0xC9, 4), (0xD9, 1), (0xDA, 2),
    (0xDB, 4), (0xDC, 2), (0xDD, 4), (0xDE, 2), (0xDF, 4),
)  # fmt: skip
"""Heads that say a length, and in how many bytes."""


class Raw:
    """Bytes in place of a value."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Packer:
    def __init__(self) -> None:
        self._raws: list[bytes] = []
        self._packer = msgpack.Packer(
            default=self._form, use_bin_type=True, unicode_errors="surrogatepass", autoreset=True
        )

    def _form(self, value: Any) -> Any:
        if isinstance(value, Raw):
            self._raws.append(value.data)
            return msgpack.ExtType(_HOLE, (len(self._raws) - 1).to_bytes(8, "big"))
        if isinstance(value, int):
            return value % 2**64  # the wire has no more bits
        raise TypeError(type(value).__name__)

    def pack(self, tree: Any) -> bytes:
        self._raws.clear()
        body: bytes = self._packer.pack(tree)
        for number, raw in enumerate(self._raws):
            hole = msgpack.packb(msgpack.ExtType(_HOLE, number.to_bytes(8, "big")))
            body = body.replace(hole, raw, 1)
        return body


_PACKER = _Packer()
pack = _PACKER.pack
"""Tree to bytes."""


def _deep(rng: Random) -> Raw:
    depth = rng.choice((10, 60, 120, 127, 128, 129, 140, 400, 900, 1010, 3000))
    head = rng.choice((b"\x91", b"\x81\x01", b"\x81\xa1a", b"\x92\xc0"))
    return Raw(head * depth + b"\xc0")


def _claims(rng: Random) -> Raw:
    head, width = rng.choice(_SIZED)
    size = rng.choice((b"\xff" * width, b"\x7f" + b"\xff" * (width - 1), b"\x00" * width))
    return Raw(bytes([head]) + size + rng.choice((b"", b"\xc0", b"abc")))


def _twice(rng: Random) -> Raw:
    key = msgpack.packb(rng.choice(("type", "num_running_reqs", "code", "a", 1)))
    return Raw(b"\x82" + key + msgpack.packb(rng.choice((1, None, "x"))) + key + msgpack.packb(2))


def _dims(rng: Random) -> list[int]:
    return [rng.choice((0, 1, 2, 2**31, 2**32, 2**63, 2**64 - 1))] * rng.choice(
        (1, 2, 3, 30, 250, 2000)
    )


NASTY: tuple[Callable[[Random], Any], ...] = (
    lambda _: None,
    lambda rng: rng.random() < 0.5,
    lambda rng: rng.choice((-1, 0, 1, 2, 5, 127, 128, 255, 256, 65_535, 65_536)),
    lambda rng: rng.choice((2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), -(2**31))),
    lambda rng: rng.choice((float("nan"), float("inf"), float("-inf"), -0.0, 1.5, 1e308, 5e-324)),
    lambda rng: rng.choice(("", "x", "0", "nil", "x" * 40, "\x00", "é", "\U0001f600", "../..", "<script>")),
    lambda rng: "y" * rng.choice((31, 32, 255, 256, 70_000)),
    lambda rng: rng.choice(("\ud800", "a\udfffb")),
    lambda rng: rng.choice((b"", b"\xff", b"\x80abc", b"ok", b"\x00" * 300)),
    lambda rng: Raw(rng.choice((b"\xa1\xff", b"\xa2\xc3\x28", b"\xa3\xed\xa0\x80", b"\xc1", b"\xd9\x05abc"))),
    lambda rng: msgpack.ExtType(rng.choice((0, 1, 2, 3, 4, 127)), rng.randbytes(rng.choice((0, 1, 4, 8, 300)))),
    lambda rng: Raw(rng.choice((b"\xd6\xff\x00\x00\x00\x01", b"\xd7\xff" + b"\xff" * 8, b"\xc7\x0c\xff" + b"\x00" * 12, b"\xc7\x03\xff\x00\x00\x00", b"\xd4\xff\x00"))),
    _deep,
    _claims,
    _twice,
    lambda _: [],
    lambda _: {},
    lambda rng: [0] * rng.choice((1, 3, 15, 16, 500)),
    lambda rng: {rng.choice(("a", "type", "request_id", 1, -1, b"x", True, 1.5)): rng.choice((None, 1, "v", [1]))},
    lambda rng: Raw(b"\x81\x90\xc0"),
    lambda rng: ["<f4", _dims(rng), rng.choice((msgpack.ExtType(3, b"\0" * 4), 0, 1, 2, -1, 2**40))],
    _dims,
)  # fmt: skip


def nasty(rng: Random) -> Any:
    """A value that is likely wrong wherever it stands."""
    return rng.choice(NASTY)(rng)


def mutated(tree: Any, rng: Random) -> Any:
    """The tree with one place changed; what is not on the way to it is shared."""
    if type(tree) is list and tree and rng.random() < 0.8:
        at = rng.randrange(len(tree))
        return [*tree[:at], mutated(tree[at], rng), *tree[at + 1 :]]
    if type(tree) is dict and tree and rng.random() < 0.8:
        key = rng.choice(list(tree))
        return {**tree, key: mutated(tree[key], rng)}
    return _changed(tree, rng)


def _changed(node: Any, rng: Random) -> Any:
    roll = rng.random()
    if roll < 0.45:
        return nasty(rng)
    if roll < 0.5:
        return [node]
    if roll < 0.55:
        return _lied(node, rng)
    if type(node) is list:
        return _changed_list(node, rng)
    if type(node) is dict:
        return _changed_map(node, rng)
    if type(node) is int:
        return rng.choice(
            (node + 1, -node, node - 1, float(node), str(node), node << 8, bool(node))
        )
    if type(node) is str:
        return rng.choice(
            (node.encode("utf-8", "replace"), node[:-1], node * 2, node + "\x00", [node], len(node))
        )
    if isinstance(node, msgpack.ExtType):
        data = rng.choice((node.data[:-1], node.data + b"\0", node.data * 2, b"", node.data[::-1]))
        return msgpack.ExtType(rng.choice((3, 3, 1, 2, 4)), data)
    return nasty(rng)


def _lied(node: Any, rng: Random) -> Any:
    """A value whose header says another length or type."""
    try:
        body = bytearray(pack(node))
    except (ValueError, OverflowError, TypeError):
        return nasty(rng)
    body[0] = (
        (body[0] + rng.choice((-1, 1, 16))) & 0xFF if rng.random() < 0.7 else rng.choice(_HEADS)
    )
    return Raw(bytes(body))


def _changed_list(node: list[Any], rng: Random) -> list[Any]:
    at = rng.randrange(len(node) + 1)
    match rng.randrange(6):
        case 0:
            return [*node[:at], *node[at + 1 :]]
        case 1:
            return [*node[:at], nasty(rng), *node[at:]]
        case 2:
            return node[:at]
        case 3:
            return [*node, *node]
        case 4:
            return node[::-1]
        case _:
            return [*node, *[None] * rng.choice((1, 2, 20))]


def _changed_map(node: dict[Any, Any], rng: Random) -> Any:
    if not node:
        return {rng.choice(("a", 1, b"b")): nasty(rng)}
    key = rng.choice(list(node))
    rest = {name: value for name, value in node.items() if name != key}
    match rng.randrange(5):
        case 0:
            return rest
        case 1:
            return {**node, rng.choice(("new", 7, b"new", "")): nasty(rng)}
        case 2:
            spelled = key.encode() if isinstance(key, str) else str(key)
            return {**rest, spelled: node[key]}
        case 3:
            return {**rest, f"{key}_": node[key]}
        case _:
            pairs = b"".join(pack(name) + pack(value) for name, value in [*rest.items()][:6])
            twice = pack(key) + pack(nasty(rng)) + pack(key) + pack(node[key])
            return Raw(bytes([0x80 + min(len(rest), 6) + 2]) + pairs + twice)


def garbled(body: bytes, rng: Random) -> bytes:
    """The body with one place of its bytes changed."""
    at = rng.randrange(len(body) + 1)
    match rng.randrange(7):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + rng.randbytes(rng.choice((1, 2, 8))) + body[at:]
        case 2:
            return body[:at] + body[at + rng.choice((1, 2, 5)) :]
        case 3:
            return body[:at] + bytes([rng.choice(_HEADS)]) + body[at + 1 :]
        case 4:
            return body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]
        case 5:
            end = min(len(body), at + rng.randrange(1, 40))
            return body[:end] + body[at:]
        case _:
            return body + rng.choice((b"\xc0", b"\x90", body[:20], b"\xc1"))


def broken(tree: Any, rng: Random) -> bytes:
    """A body made of a valid tree: now and then as it is, mostly broken once or more."""
    roll = rng.random()
    if roll < 0.03:
        return pack(tree)
    if roll < 0.85:
        for _ in range(1 if roll < 0.6 else rng.choice((2, 2, 3, 5))):
            tree = mutated(tree, rng)
    body = pack(tree)
    if roll > 0.75:
        for _ in range(rng.choice((1, 1, 2, 4))):
            body = garbled(body, rng)
    return body


def reframed(frames: list[bytes], rng: Random) -> tuple[bytes, ...]:
    """Frames with now and then one lost, doubled, swapped, cut or added."""
    if rng.random() > 0.12:
        return tuple(frames)
    at = rng.randrange(len(frames) + 1)
    match rng.randrange(6):
        case 0:
            return tuple(frames[:at] + frames[at + 1 :])
        case 1:
            return tuple(frames[:at] + frames[max(0, at - 1) :])
        case 2:
            return (
                *frames[:at],
                rng.choice((b"", b"\xff", b"ENGINE_CORE_DEAD", b"\0" * 4)),
                *frames[at:],
            )
        case 3:
            return tuple(frames[::-1])
        case 4:
            return (*frames[:-1], frames[-1][: rng.randrange(len(frames[-1]) + 1)])
        case _:
            return (*frames, *frames)
