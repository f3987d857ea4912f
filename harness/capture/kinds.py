"""Which message some frames are: by the socket where that is known, else by their look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from client.protocol.ids import IDENTITY_BYTES
from client.protocol.messages import (
    ENGINE_CORE_DEAD,
    READY_GATE,
    SUBSCRIBE_ALL,
    UNSUBSCRIBE_ALL,
    RequestType,
)
from harness.capture import tree
from harness.capture.recording import (
    COORDINATOR_INPUT,
    COORDINATOR_OUTPUT,
    FROM_ENGINE,
    HANDSHAKE,
    INPUT,
    OUTPUT,
    TO_ENGINE,
    Frame,
)

UNKNOWN = "unknown"
_OUTPUTS_MIN = 5
"""Fewer elements do not make an EngineCoreOutputs recognisable."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A message of the protocol.

    Attributes:
        name: as used in files and by ``--as``.
        title: for people.
        direction: who sends it.
        body: which frame is the msgpack body; ``None``: there is none.
        trailing: bytes behind the body's value are accepted by its receiver.
    """

    name: str
    title: str
    direction: str
    body: int | None = 0
    trailing: bool = False


_TO, _FROM = TO_ENGINE, FROM_ENGINE
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("hello", "HELLO", _FROM, trailing=True),
        Kind("init", "INIT", _TO),
        Kind("ready", "READY of the handshake", _FROM, trailing=True),
        Kind("registration", "registration (ready response)", _FROM, trailing=True),
        Kind("ready-gate", "READY gate of the coordinator", _TO, None),
        Kind("subscription", "subscription", _FROM, None),
        Kind("unsubscription", "end of a subscription", _FROM, None),
        Kind("add", "ADD", _TO, 1),
        Kind("abort", "ABORT", _TO, 1),
        Kind("start-dp-wave", "START_DP_WAVE", _TO, 1),
        Kind("utility", "UTILITY", _TO, 1),
        Kind("outputs", "EngineCoreOutputs", _FROM, trailing=True),
        Kind("dead", "ENGINE_CORE_DEAD", _FROM, None),
        Kind("publish", "publish of the external coordinator", "to-frontend", trailing=True),
        Kind("first-request", "first-request notice to the external coordinator", "from-frontend"),
        Kind(UNKNOWN, "not recognised", "unknown", trailing=True),
    )
}
_REQUEST_KINDS = {
    RequestType.ADD.value: "add",
    RequestType.ABORT.value: "abort",
    RequestType.START_DP_WAVE.value: "start-dp-wave",
    RequestType.UTILITY.value: "utility",
}


def without_identity(frames: Sequence[bytes]) -> tuple[bytes, tuple[bytes, ...]]:
    """Split the identity off a message as a ROUTER sees it; ``b""`` if there is none.

    A two-byte frame in front of a type byte or of a body is one: no message begins with two
    bytes that are followed by another frame.
    """
    parts = tuple(bytes(frame) for frame in frames)
    if len(parts) > 1 and len(parts[0]) == IDENTITY_BYTES:
        return parts[0], parts[1:]
    return b"", parts


def kind_of_frame(frame: Frame) -> Kind:
    """Tell the kind of a recorded message."""
    parts, to_engine = frame.frames, frame.direction == TO_ENGINE
    first = parts[0] if parts else b""
    name = UNKNOWN
    if frame.socket == HANDSHAKE:
        name = "init" if to_engine else _handshake(first)
    elif frame.socket == INPUT:
        name = _REQUEST_KINDS.get(first, UNKNOWN) if to_engine else "registration"
    elif frame.socket in (OUTPUT, COORDINATOR_OUTPUT):
        name = "dead" if first == ENGINE_CORE_DEAD else "outputs"
    elif frame.socket == COORDINATOR_INPUT and to_engine:
        name = "ready-gate" if first == READY_GATE else _REQUEST_KINDS.get(first, UNKNOWN)
    elif frame.socket == COORDINATOR_INPUT:
        name = _subscription(first) or UNKNOWN
    return KINDS[name]


def guess_kind(frames: Sequence[bytes]) -> Kind:
    """Tell the kind of a message from its frames alone, without an identity in front."""
    return KINDS[_guess([bytes(frame) for frame in frames])]


def _guess(parts: Sequence[bytes]) -> str:
    if not parts:
        return UNKNOWN
    first = parts[0]
    if len(parts) > 1 and first in _REQUEST_KINDS:
        return _REQUEST_KINDS[first]
    if first == ENGINE_CORE_DEAD:
        return "dead"
    if len(parts) == 1 and (first == READY_GATE or _subscription(first)):
        return _subscription(first) or "ready-gate"
    try:
        root = tree.read_tree(first, trailing=True)
    except tree.TreeError:
        return UNKNOWN
    if root.kind == tree.MAP:
        return _guess_map(root, first)
    return _guess_array(root) if root.kind == tree.ARRAY else UNKNOWN


def _subscription(first: bytes) -> str:
    names = {SUBSCRIBE_ALL: "subscription", UNSUBSCRIBE_ALL: "unsubscription"}
    return names.get(first, "")


def _handshake(first: bytes) -> str:
    try:
        root = tree.read_tree(first, trailing=True)
    except tree.TreeError:
        return "hello"  # what it should have been; the explanation says what is wrong
    return "ready" if _status(root) == "READY" else "hello"


def _status(root: tree.Node) -> object:
    values = {key.value: item.value for key, item in zip(root.keys, root.items, strict=False)}
    return values.get("status")


def _guess_map(root: tree.Node, first: bytes) -> str:
    keys = {key.value for key in root.keys}
    if "addresses" in keys:
        return "init"
    if "status" in keys:
        return _handshake(first)
    return "registration" if keys else UNKNOWN


def _guess_array(root: tree.Node) -> str:
    types = [item.kind for item in root.items]
    if types == [tree.INT, tree.INT]:
        return "first-request"
    if len(types) == 3 and types[1:] == [tree.INT, tree.BOOL]:
        return "publish"
    if len(types) >= _OUTPUTS_MIN and types[:2] == [tree.INT, tree.ARRAY]:
        return "outputs"
    return UNKNOWN
