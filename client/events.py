"""What the reference client tells its observer: the white-box half of a trace.

Each event is frozen and holds plain values only, so that it can be hashed, printed and
compared. The client calls ``observer(event)`` synchronously, at the moment of the fact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestRegistered:
    """A request entered the in-flight registry (before its ADD is sent)."""

    request_id: str
    engine: int
    explicit_rank: int | None
    wave: int


@dataclass(frozen=True, slots=True)
class RequestReleased:
    """A request left the in-flight registry.

    ``cause``: one of ``finished``, ``rolled-back``, ``aborted``, ``auto-aborted``,
    ``stream-closed``, ``client-closed``.
    """

    request_id: str
    engine: int
    cause: str


@dataclass(frozen=True, slots=True)
class AbortFailed:
    """An ABORT could not be sent: its engine is gone, or the client failed on the way."""

    engine: int
    request_ids: tuple[str, ...]
    error: str


@dataclass(frozen=True, slots=True)
class OutputDropped:
    """An output for an id that is not in flight was dropped."""

    request_id: str


@dataclass(frozen=True, slots=True)
class UtilityRegistered:
    """A waiter was registered for one engine of a utility call."""

    call_id: int
    engine: int
    method: str


@dataclass(frozen=True, slots=True)
class UtilitySettled:
    """One engine's outcome is known. ``error`` is the error class's name, ``None`` if ok."""

    call_id: int
    engine: int
    method: str
    error: str | None


@dataclass(frozen=True, slots=True)
class UtilityReleased:
    """The waiter of a call id was removed without a reply (cancel, failure on the way)."""

    call_id: int


@dataclass(frozen=True, slots=True)
class UtilityReplyDropped:
    """A late, double or unknown reply was dropped, or one whose caller left before it read it."""

    call_id: int


@dataclass(frozen=True, slots=True)
class FirstRequestQueued:
    """The client told its coordinator of a first request (≤ 0.32)."""

    engine: int
    wave: int


@dataclass(frozen=True, slots=True)
class FirstRequestHandled:
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


@dataclass(frozen=True, slots=True)
class WaveNoticeHandled:
    """The coordinator acted on an engine's notice. ``notice``: ``complete`` or ``start``."""

    notice: str
    engine: int
    wave: int
    wave_before: int
    running_before: bool
    wave_after: int
    running_after: bool
    broadcast: bool


@dataclass(frozen=True, slots=True)
class CoordinatorPublished:
    """The external coordinator process published its state to the frontends."""

    counts: tuple[tuple[float, ...], ...] | None
    wave: int
    running: bool


@dataclass(frozen=True, slots=True)
class CoordinatorStateApplied:
    """The client took over a publish of the external coordinator."""

    wave: int
    running: bool


@dataclass(frozen=True, slots=True)
class HealthFailed:
    """The sticky health error was set (first) or a later fatal error was seen (not first)."""

    error: str
    message: str
    first: bool


@dataclass(frozen=True, slots=True)
class EngineConnected:
    """Startup finished for one engine."""

    engine: int
    identity: bytes


@dataclass(frozen=True, slots=True)
class ClientClosed:
    """``shutdown`` finished; ``tasks`` and ``sockets`` are what was still open after it."""

    tasks: tuple[str, ...]
    sockets: int


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
)
Observer = Callable[[ClientEvent], None]


def ignore(_event: ClientEvent) -> None:
    """Observe nothing."""
