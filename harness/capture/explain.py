"""Explains one message: what it is, each field, and which releases take it.

Bytes are read twice: by ``tree`` for what was written and where, and by the codec of each
release for whether its receiver takes it. So a refusal has a reason in the receiver's terms and
an offset in the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from client.protocol.codec import Codec, CodecError, DecodeError
from client.protocol.profiles import PROFILES, RELEASES, Profile
from harness.capture import tree
from harness.capture.explanation import Explanation, Refusal
from harness.capture.kinds import KINDS, UNKNOWN, Kind, guess_kind, without_identity
from harness.capture.message_fields import fields_of
from harness.capture.plain import plain
from harness.capture.refusals import refusals_of


def decode(kind: str, frames: Sequence[bytes], profile: Profile) -> Any:
    """Decode one message as its receiver of a release does.

    Args:
        kind: name of a kind.
        frames: without identity.
        profile: the release.

    Raises:
        CodecError: it is refused.
    """
    codec = Codec(profile)
    whole: dict[str, Callable[[], Any]] = {
        **dict.fromkeys(
            ("add", "abort", "utility", "start-dp-wave"), lambda: codec.decode_engine_input(frames)
        ),
        "outputs": lambda: codec.classify(frames),
        "dead": lambda: codec.classify(frames),
    }
    bodies: dict[str, Callable[[bytes], Any]] = {
        "hello": codec.decode_hello_or_ready,
        "ready": codec.decode_hello_or_ready,
        "init": codec.decode_init,
        "registration": codec.decode_ready_response,
        "publish": codec.decode_publish,
        "first-request": codec.decode_first_request,
    }
    if kind in whole:
        return whole[kind]()
    if kind not in bodies:
        return None
    if len(frames) != 1:
        what = KINDS[kind].title
        raise DecodeError(what, "frames", f"expected one frame, got {len(frames)}")
    return bodies[kind](frames[0])


def explain(
    frames: Sequence[bytes],
    *,
    kind: Kind | None = None,
    release: str | None = None,
    only: str | None = None,
) -> Explanation:
    """Explain one message.

    Args:
        frames: all frames, with or without an identity in front.
        kind: what it is, if that is known; else it is guessed.
        release: whose names are wanted, if it takes the message.
        only: ask this release alone.
    """
    identity, parts = without_identity(frames)
    if kind is None:
        kind = guess_kind(parts)
    releases = RELEASES if only is None else (only,)
    taken: dict[str, Any] = {}
    errors: dict[str, CodecError] = {}
    if kind.name != UNKNOWN:
        for asked in releases:
            try:
                taken[asked] = decode(kind.name, parts, PROFILES[asked])
            except CodecError as error:
                errors[asked] = error
    root, broken = _body(kind, parts)
    written = tuple(r for r in taken if _writes(kind, root, PROFILES[r]))
    named_by = _names_of(release or only, taken, written)
    return Explanation(
        kind=kind,
        identity=identity,
        sizes=tuple(len(part) for part in parts),
        fields=tuple(fields_of(kind, parts, root, PROFILES[named_by])),
        named_by=named_by,
        taken=tuple(taken),
        written=written,
        refusals=tuple(refusals_of(kind, parts, root, errors, broken)),
        value=plain(taken[named_by]) if named_by in taken else None,
        broken=broken,
    )


def _names_of(
    wanted: str | None, taken: Sequence[str] | dict[str, Any], written: Sequence[str]
) -> str:
    """Whose names to use: the one asked for, else the newest that writes it so, or takes it."""
    if wanted is not None:
        return wanted
    for group in (written, tuple(taken)):
        if group:
            return group[-1]
    return RELEASES[-1]


def _body(kind: Kind, parts: Sequence[bytes]) -> tuple[tree.Node | None, Refusal | None]:
    if kind.body is None or kind.body >= len(parts) or not parts[kind.body]:
        return None, None
    try:
        return tree.read_tree(parts[kind.body], trailing=kind.trailing), None
    except tree.TreeError as error:
        return None, Refusal((), "TreeError", str(error), kind.body, error.offset)


def _writes(kind: Kind, root: tree.Node | None, profile: Profile) -> bool:
    """Whether a sender of this release writes structs of these lengths."""
    if root is None:
        return True
    if kind.name == "add":
        return len(root.items) == profile.request_fields
    if kind.name == "outputs":
        rows = root.items[1].items if len(root.items) > 1 else []
        whole = len(root.items) == profile.outputs_fields
        return whole and all(len(row.items) == profile.output_fields for row in rows)
    return True
