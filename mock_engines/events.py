"""What a mock engine tells its observer: the wire, as the engine saw it.

These events exist on every target, since the engines are always ours. ``engine`` is the global
rank. Values are plain and hashable; bodies are shown decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineJoined:
    """Startup finished from the engine's point of view. ``identity`` is what it announced."""

    engine: int
    identity: bytes
    coordinator: bool


@dataclass(frozen=True, slots=True)
class GateOpened:
    """The engine received READY on its coordinator socket."""

    engine: int


@dataclass(frozen=True, slots=True)
class AddSeen:
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


@dataclass(frozen=True, slots=True)
class AbortSeen:
    """ABORT arrived. ``client_index``: of the frontend on whose socket it came."""

    engine: int
    request_ids: tuple[str, ...]
    client_index: int = 0


@dataclass(frozen=True, slots=True)
class UtilitySeen:
    """UTILITY arrived. ``args`` is ``repr`` of the decoded arguments."""

    engine: int
    call_id: int
    method: str
    args: str
    client_index: int


@dataclass(frozen=True, slots=True)
class StartWaveSeen:
    """START_DP_WAVE arrived (broadcast: also at the engine that it excludes)."""

    engine: int
    wave: int
    exclude: int | None


@dataclass(frozen=True, slots=True)
class UnknownSeen:
    """Bytes arrived that no message has; ``detail`` says why."""

    engine: int
    detail: str


@dataclass(frozen=True, slots=True)
class OutputSent:
    """One output row left. ``finish``: lower-case finish reason or ``None``."""

    engine: int
    request_id: str
    tokens: tuple[int, ...]
    finish: str | None


@dataclass(frozen=True, slots=True)
class FinishedOnlySent:
    """``finished_requests`` left without a final output."""

    engine: int
    request_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UtilityReplySent:
    """A utility reply left. ``failure``: its failure message; ``value``: ``repr``."""

    engine: int
    call_id: int
    method: str
    failure: str | None
    value: str


@dataclass(frozen=True, slots=True)
class UtilityApplied:
    """A stateful utility took effect in the engine. ``state``: sorted repr of what changed."""

    engine: int
    call_id: int
    method: str
    state: str


@dataclass(frozen=True, slots=True)
class WaveNoticeSent:
    """``notice``: ``complete`` or ``start``; sent on the coordinator socket."""

    engine: int
    notice: str
    wave: int


@dataclass(frozen=True, slots=True)
class StatsSent:
    """Scheduler stats left. ``path``: ``main`` or ``coordinator``; index as stamped."""

    engine: int
    engine_index: int
    running: int
    waiting: int
    path: str


@dataclass(frozen=True, slots=True)
class RawSent:
    """Scripted bytes left. ``frames``: hex of each frame, cut at 64 bytes."""

    engine: int
    path: str
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineDied:
    """``how``: ``sentinel``, ``close`` (sockets closed) or ``vanish`` (process gone)."""

    engine: int
    how: str


@dataclass(frozen=True, slots=True)
class EngineStalled:
    """The engine reads and sends nothing any more, until ``gate`` opens; its sockets stay."""

    engine: int
    gate: str


@dataclass(frozen=True, slots=True)
class EngineResumed:
    """A stalled engine goes on."""

    engine: int


@dataclass(frozen=True, slots=True)
class EngineIdle:
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
