"""What a mock engine tells its observer: the wire, as the engine saw it.

These events exist on every target, since the engines are always ours. ``engine`` is the global
rank. Values are plain and hashable; bodies are shown decoded.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class EngineJoined(msgspec.Struct, frozen=True, gc=False):
    """Startup finished from the engine's point of view. ``identity`` is what it announced."""

    engine: int
    identity: bytes
    coordinator: bool


class GateOpened(msgspec.Struct, frozen=True, gc=False):
    """The engine received READY on its coordinator socket."""

    engine: int


class AddSeen(msgspec.Struct, frozen=True, gc=False):
    """ADD arrived.

    ``aux_bytes``: sizes of aux frames; ``extra_args``: stable repr of
    ``sampling_params['extra_args']`` (carries kv_transfer_params), ``""`` if absent.
    """

    engine: int
    request_id: str
    external_id: str | None
    wave: int
    data_parallel_rank: int | None
    client_index: int
    prompt: tuple[int, ...]
    extra_args: str
    aux_bytes: tuple[int, ...]


class AbortSeen(msgspec.Struct, frozen=True, gc=False):
    """ABORT arrived. ``client_index``: of the frontend on whose socket it came."""

    engine: int
    request_ids: tuple[str, ...]
    client_index: int = 0


class UtilitySeen(msgspec.Struct, frozen=True, gc=False):
    """UTILITY arrived. ``args`` is ``repr`` of the decoded arguments."""

    engine: int
    call_id: int
    method: str
    args: str
    client_index: int


class StartWaveSeen(msgspec.Struct, frozen=True, gc=False):
    """START_DP_WAVE arrived (broadcast: also at the engine that it excludes)."""

    engine: int
    wave: int
    exclude: int | None


class UnknownSeen(msgspec.Struct, frozen=True, gc=False):
    """Bytes arrived that no message has; ``detail`` says why."""

    engine: int
    detail: str


class OutputSent(msgspec.Struct, frozen=True, gc=False):
    """One output row left. ``finish``: lower-case finish reason or ``None``."""

    engine: int
    request_id: str
    tokens: tuple[int, ...]
    finish: str | None


class FinishedOnlySent(msgspec.Struct, frozen=True, gc=False):
    """``finished_requests`` left without a final output."""

    engine: int
    request_ids: tuple[str, ...]


class UtilityReplySent(msgspec.Struct, frozen=True, gc=False):
    """A utility reply left. ``failure``: its failure message; ``value``: ``repr``."""

    engine: int
    call_id: int
    method: str
    failure: str | None
    value: str


class UtilityApplied(msgspec.Struct, frozen=True, gc=False):
    """A stateful utility took effect in the engine. ``state``: sorted repr of what changed."""

    engine: int
    call_id: int
    method: str
    state: str


class WaveNoticeSent(msgspec.Struct, frozen=True, gc=False):
    """``notice``: ``complete`` or ``start``; sent on the coordinator socket."""

    engine: int
    notice: str
    wave: int


class StatsSent(msgspec.Struct, frozen=True, gc=False):
    """Scheduler stats left. ``path``: ``main`` or ``coordinator``; index as stamped."""

    engine: int
    engine_index: int
    running: int
    waiting: int
    path: str


class RawSent(msgspec.Struct, frozen=True, gc=False):
    """Scripted bytes left. ``frames``: hex of each frame, cut at 64 bytes."""

    engine: int
    path: str
    frames: tuple[str, ...]


class EngineDied(msgspec.Struct, frozen=True, gc=False):
    """``how``: ``sentinel``, ``close`` (sockets closed) or ``vanish`` (process gone)."""

    engine: int
    how: str


class EngineStalled(msgspec.Struct, frozen=True, gc=False):
    """The engine reads and sends nothing any more, until ``gate`` opens; its sockets stay."""

    engine: int
    gate: str


class EngineResumed(msgspec.Struct, frozen=True, gc=False):
    """A stalled engine goes on."""

    engine: int


class EngineIdle(msgspec.Struct, frozen=True, gc=False):
    """The engine has no request, no utility in work and no action under way (fence answer)."""

    engine: int
    requests: tuple[str, ...]


MockEvent = (
    EngineJoined
    | GateOpened
    | AddSeen
    | AbortSeen
    | UtilitySeen
    | StartWaveSeen
    | UnknownSeen
    | OutputSent
    | FinishedOnlySent
    | UtilityReplySent
    | UtilityApplied
    | WaveNoticeSent
    | StatsSent
    | RawSent
    | EngineDied
    | EngineStalled
    | EngineResumed
    | EngineIdle
)
Observer = Callable[[MockEvent], None]


def ignore(_event: MockEvent) -> None:
    """Observe nothing."""
