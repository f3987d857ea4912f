"""Golden vectors as values and as files, and in which releases one is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.protocol.codec import Codec, CodecError
from client.protocol.messages import Add, Hello
from client.protocol.profiles import PROFILES, RELEASES, Profile
from client.protocol.strict_json import loads
from harness.capture.explain import decode
from harness.capture.kinds import KINDS
from harness.capture.parts import PartError, frames, part, texts, word
from harness.capture.plain import plain
from harness.capture.sources import GOLDEN_KEY, GOLDEN_VERSION

FORMAT_VERSION = GOLDEN_VERSION


@dataclass(frozen=True, slots=True)
class Vector:
    """One message.

    Attributes:
        name: unique, and stable while the form of the message is.
        kind: name of a kind (``harness.capture.kinds``).
        direction: ``to-engine`` or ``from-engine``.
        releases: those whose codec reads ``frames`` as ``value`` and writes it so again; without
            a gap, oldest first.
        seen_in: releases in whose captures a message of this form passed.
        source: where these bytes come from: a frontend and a story.
        frames: without identity.
        value: decoded, in JSON's terms (``harness.capture.plain``).
    """

    name: str
    kind: str
    direction: str
    releases: tuple[str, ...]
    seen_in: tuple[str, ...]
    source: str
    frames: tuple[bytes, ...]
    value: Any


# --- bytes and values -----------------------------------------------------------------------


def read(kind: str, frames: Sequence[bytes], profile: Profile) -> Any:
    """Decode a message so that it can be encoded again.

    Raises:
        CodecError: the release refuses it.
    """
    if kind == "outputs":
        return Codec(profile).decode_outputs(frames)
    return decode(kind, frames, profile)


def write(kind: str, message: Any, profile: Profile, frames: Sequence[bytes]) -> list[bytes]:
    """Encode what ``read`` returned; what is no msgpack stays as it is.

    Raises:
        CodecError: the release cannot say it.
    """
    codec = Codec(profile)
    if KINDS[kind].body is None:
        return list(frames)
    if isinstance(message, Add):
        return codec.encode_add(message.request, message.aux)
    lists: dict[str, Callable[[], list[bytes]]] = {
        "abort": lambda: codec.encode_abort(message.request_ids),
        "utility": lambda: codec.encode_utility(message),
        "start-dp-wave": lambda: codec.encode_start_wave(message),
        "outputs": lambda: codec.encode_outputs(message),
    }
    if kind in lists:
        return lists[kind]()
    if isinstance(message, Hello):
        return [codec.encode_hello(message)]
    bodies: dict[str, Callable[[Any], bytes]] = {
        "ready": codec.encode_ready,
        "init": codec.encode_init,
        "registration": codec.encode_ready_response,
        "publish": codec.encode_publish,
        "first-request": codec.encode_first_request,
    }
    return [bodies[kind](message)]


def right_in(kind: str, frames: Sequence[bytes]) -> dict[str, Any]:
    """Return the releases in which these bytes are right, each with the decoded value."""
    found = {}
    for release, profile in PROFILES.items():
        try:
            message = read(kind, frames, profile)
            if write(kind, message, profile, frames) == list(frames):
                found[release] = plain(message)
        except CodecError:
            continue
    return found


def run_around(releases: Iterable[str], wanted: str) -> tuple[str, ...]:
    """Return the releases round ``wanted`` without a gap."""
    there = set(releases)
    at = RELEASES.index(wanted)
    first = last = at
    while first > 0 and RELEASES[first - 1] in there:
        first -= 1
    while last + 1 < len(RELEASES) and RELEASES[last + 1] in there:
        last += 1
    return RELEASES[first : last + 1]


# --- files ----------------------------------------------------------------------------------


def documents(vectors: Iterable[Vector]) -> dict[str, dict[str, Any]]:
    """Return the files: name of the kind, and content."""
    found: dict[str, dict[str, Any]] = {}
    for vector in vectors:
        head = {GOLDEN_KEY: FORMAT_VERSION, "kind": vector.kind, "vectors": []}
        found.setdefault(vector.kind, head)["vectors"].append(
            {
                "name": vector.name,
                "kind": vector.kind,
                "direction": vector.direction,
                "first_release": vector.releases[0],
                "last_release": vector.releases[-1],
                "seen_in": list(vector.seen_in),
                "source": vector.source,
                "frames": [frame.hex() for frame in vector.frames],
                "value": vector.value,
            }
        )
    return found


def load(folder: Path) -> list[Vector]:
    """Read all files of a folder.

    Raises:
        ValueError: a file cannot be read, or is of another format; the message names it.
    """
    return [vector for path in sorted(folder.glob("*.json")) for vector in _load_file(path)]


def _load_file(path: Path) -> Iterator[Vector]:
    try:
        document = loads(path.read_text(encoding="utf-8"))
        if part(document, GOLDEN_KEY, int) != FORMAT_VERSION:
            msg = f"it has no golden vectors of format {FORMAT_VERSION}"
            raise PartError(msg)
        yield from [_vector(item) for item in part(document, "vectors", list)]
    except (OSError, ValueError) as error:
        msg = f"{path}: {getattr(error, 'strerror', None) or error}"
        raise ValueError(msg) from error


def _vector(item: Any) -> Vector:
    first = RELEASES.index(word(item, "first_release", RELEASES))
    last = RELEASES.index(word(item, "last_release", RELEASES))
    if first > last:
        msg = "'first_release' is newer than 'last_release'"
        raise PartError(msg)
    return Vector(
        name=part(item, "name", str),
        kind=word(item, "kind", KINDS),
        direction=part(item, "direction", str),
        releases=RELEASES[first : last + 1],
        seen_in=texts(item, "seen_in"),
        source=part(item, "source", str),
        frames=frames(item),
        value=part(item, "value", object),
    )


def text_of(document: dict[str, Any]) -> str:
    """Write one file: a vector a line, so that a change shows as one line."""
    head = {key: value for key, value in document.items() if key != "vectors"}
    lines = ",\n".join(
        "  " + json.dumps(vector, ensure_ascii=False) for vector in document["vectors"]
    )
    return f'{json.dumps(head)[:-1]}, "vectors": [\n{lines}\n]}}\n'
