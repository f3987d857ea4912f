"""Which release a session speaks: what engines say of themselves, else the lengths of structs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
from packaging.version import InvalidVersion, Version

from client.protocol.profiles import NEWEST, PROFILES, RELEASES, Profile
from harness.capture.kinds import kind_of_frame
from harness.capture.recording import Frame

Fits = Callable[[Profile], bool]


class ReleaseGuess:
    """Narrows the releases down, message by message.

    Args:
        said: the release, if it is known; then nothing is guessed.
        by: how it is known, for people.
    """

    def __init__(self, said: str | None = None, by: str = "as --profile says") -> None:
        self.said = said
        self._by = by
        self._version: str | None = None
        self._fitting = list(RELEASES)
        self._settled: set[Any] = set()

    def take(self, frame: Frame) -> None:
        """Learn from a message; one that cannot be read tells nothing."""
        kind = kind_of_frame(frame)
        if kind.name not in ("registration", "add", "outputs") or self.said is not None:
            return
        assert kind.body is not None
        if kind.body >= len(frame.frames):
            return
        try:
            unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, max_buffer_size=0)
            unpacker.feed(frame.frames[kind.body])
            body = unpacker.unpack()
        except (ValueError, msgpack.UnpackException):
            return
        if kind.name == "registration" and isinstance(body, dict):
            self._registration(body)
        elif kind.name == "add" and isinstance(body, list):
            self._narrow(("add", len(body)), lambda p: p.request_fields == len(body))
        elif kind.name == "outputs" and isinstance(body, list):
            self._outputs(body)

    def _registration(self, body: dict[Any, Any]) -> None:
        version = body.get("vllm_version")
        if isinstance(version, str) and self._version is None:
            self._version = version
        keys = frozenset(key for key in body if isinstance(key, str))
        self._narrow(
            keys, lambda p: p.ready_required <= keys and (keys & _KEYS) <= set(p.ready_keys)
        )

    def _outputs(self, body: list[Any]) -> None:
        # An engine may leave trailing fields out, never write more than its release has.
        self._narrow(("outputs", len(body)), lambda p: p.outputs_fields >= len(body))
        rows = body[1] if len(body) > 1 and isinstance(body[1], list) else []
        longest = max((len(row) for row in rows if isinstance(row, list)), default=0)
        self._narrow(("row", longest), lambda p: p.output_fields >= longest)

    def _narrow(self, what: Any, fits: Fits) -> None:
        if what in self._settled:
            return
        self._settled.add(what)
        left = [release for release in self._fitting if fits(PROFILES[release])]
        # Messages that no release fits tell of an unknown one; what is left says most.
        self._fitting = left or self._fitting

    @property
    def release(self) -> str:
        """The release: as said, as engines say it, else the newest that fits all messages."""
        if self.said is not None:
            return self.said
        near = _nearest(self._version)
        return self._fitting[-1] if near is None else near

    @property
    def why(self) -> str:
        """How the release is known, for people."""
        if self.said is not None:
            return self._by
        if (near := _nearest(self._version)) is not None:
            exact = self._version == near
            return "as the engines say" if exact else f"the nearest to {self._version}"
        if len(self._fitting) == len(RELEASES):
            return f"not told by any message; {NEWEST} is the newest"
        first, last = self._fitting[0], self._fitting[-1]
        return "by the form of messages" + ("" if first == last else f"; {first} to {last} fit")


_KEYS = frozenset(PROFILES[NEWEST].ready_keys)


def _nearest(version: str | None) -> str | None:
    """The newest known release that is not newer than ``version``."""
    if version is None:
        return None
    try:
        wanted = Version(Version(version).base_version)
    except InvalidVersion:
        return None
    older = [release for release in RELEASES if Version(release) <= wanted]
    return older[-1] if older else RELEASES[0]
