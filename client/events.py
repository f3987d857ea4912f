"""What the reference client tells its observer: the white-box half of a trace.

Each event is frozen and holds plain values only, so that it can be hashed, printed and
compared. The client calls ``observer(event)`` synchronously, at the moment of the fact.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class RequestRegistered(msgspec.Struct, frozen=True, gc=False):
    """A request entered the in-flight registry (before its ADD is sent)."""

    request_id: str
    engine: int
    explicit_rank: int | None
    wave: int


class RequestReleased(msgspec.Struct, frozen=True, gc=False):
    """A request left the in-flight registry.

    ``cause``: one of ``finished``, ``rolled-back``, ``aborted``, ``auto-aborted``,
    ``stream-closed``, ``client-closed``, ``engine-removed``.
    """

    request_id: str
    engine: int
    cause: str


class AbortFailed(msgspec.Struct, frozen=True, gc=False):
    """An ABORT could not be sent: its engine is gone, or the client failed on the way."""

    engine: int
    request_ids: tuple[str, ...]
    error: str


class OutputDropped(msgspec.Struct, frozen=True, gc=False):
    """An output for an id that is not in flight was dropped."""

    request_id: str


class UtilityRegistered(msgspec.Struct, frozen=True, gc=False):
    """A waiter was registered for one engine of a utility call."""

    call_id: int
    engine: int
    method: str


class UtilitySettled(msgspec.Struct, frozen=True, gc=False):
    """One engine's outcome is known. ``error`` is the error class's name, ``None`` if ok."""

    call_id: int
    engine: int
    method: str
    error: str | None


class UtilityReleased(msgspec.Struct, frozen=True, gc=False):
    """The waiter of a call id was removed without a reply (cancel, failure on the way)."""

    call_id: int


class UtilityReplyDropped(msgspec.Struct, frozen=True, gc=False):
    """A late, double or unknown reply was dropped, or one whose caller left before it read it."""

    call_id: int


class FirstRequestQueued(msgspec.Struct, frozen=True, gc=False):
    """The client told its coordinator of a first request (≤ 0.32)."""

    engine: int
    wave: int


class FirstRequestHandled(msgspec.Struct, frozen=True, gc=False):
    """The coordinator acted on a FirstRequest: state before and after, and its broadcast.

    ``broadcast_wave`` is ``None`` if nothing was broadcast.
    """

    engine: int
    request_wave: int
    wave_before: int
    running_before: bool
    wave_after: int
    running_after: bool
    broadcast_wave: int | None
    exclude: int | None


class WaveNoticeHandled(msgspec.Struct, frozen=True, gc=False):
    """The coordinator acted on an engine's notice. ``notice``: ``complete`` or ``start``."""

    notice: str
    engine: int
    wave: int
    wave_before: int
    running_before: bool
    wave_after: int
    running_after: bool
    broadcast: bool


class CoordinatorPublished(msgspec.Struct, frozen=True, gc=False):
    """The external coordinator process published its state to the frontends."""

    counts: tuple[tuple[float, ...], ...] | None
    wave: int
    running: bool


class CoordinatorStateApplied(msgspec.Struct, frozen=True, gc=False):
    """The client took over a publish of the external coordinator."""

    wave: int
    running: bool


class HealthFailed(msgspec.Struct, frozen=True, gc=False):
    """The sticky health error was set (first) or a later fatal error was seen (not first)."""

    error: str
    message: str
    first: bool


class EngineConnected(msgspec.Struct, frozen=True, gc=False):
    """Startup finished for one engine."""

    engine: int
    identity: bytes


class ClientClosed(msgspec.Struct, frozen=True, gc=False):
    """``shutdown`` finished; ``tasks`` and ``sockets`` are what was still open after it."""

    tasks: tuple[str, ...]
    sockets: int


class EnginesChanged(msgspec.Struct, frozen=True, gc=False):
    """An elastic change altered what the client is connected to, or sends new requests to.

    Attributes:
        connected: ranks that the client speaks with, in engine order.
        routed: those of them that get new requests.
    """

    connected: tuple[int, ...]
    routed: tuple[int, ...]


class ScaleNoticeQueued(msgspec.Struct, frozen=True, gc=False):
    """The client tells its external coordinator how many engines there are from now on."""

    engines: int


class ScaleNoticeHandled(msgspec.Struct, frozen=True, gc=False):
    """The external coordinator took over how many engines there are."""

    engines_before: int
    engines_after: int


ClientEvent = (
    RequestRegistered
    | RequestReleased
    | AbortFailed
    | OutputDropped
    | UtilityRegistered
    | UtilitySettled
    | UtilityReleased
    | UtilityReplyDropped
    | FirstRequestQueued
    | FirstRequestHandled
    | WaveNoticeHandled
    | CoordinatorPublished
    | CoordinatorStateApplied
    | HealthFailed
    | EngineConnected
    | ClientClosed
    | EnginesChanged
    | ScaleNoticeQueued
    | ScaleNoticeHandled
)
Observer = Callable[[ClientEvent], None]


def ignore(_event: ClientEvent) -> None:
    """Observe nothing."""
