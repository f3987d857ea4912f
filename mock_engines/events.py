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


class RankMoved(msgspec.Struct, frozen=True, gc=False):
    """The state of a rank changed (``waves: lockstep``).

    Attributes:
        pause: of its scheduler: ``none``, ``new`` (what runs goes on) or ``all``.
        pending_pause: it was told to pause, and not all ranks have agreed yet.
        ignores_starts: all agreed; START_DP_WAVE has no effect.
        asleep: tags of memory that sleeps.
        ending: it was told to shut down.
    """

    engine: int
    running: bool
    wave: int
    pause: str
    pending_pause: bool
    ignores_starts: bool
    asleep: tuple[str, ...]
    ending: bool = False


class StartWaveIgnored(msgspec.Struct, frozen=True, gc=False):
    """A rank that steps with others took START_DP_WAVE from its queue, to no effect."""

    engine: int
    wave: int
    exclude: int | None
    why: str


class ExchangeHeld(msgspec.Struct, frozen=True, gc=False):
    """All ranks of a group met in an exchange of unfinished work.

    Attributes:
        engine: the rank that came last.
        number: how many exchanges this one makes.
        waves: (rank, wave, step of the wave) of each.
        unfinished: ranks that have work.
        pausing: ranks that said that they were told to pause.
        goes_on: what all were told: somebody has work, or not all were told to pause yet.
        claimed: ranks that said that they have work.
    """

    engine: int
    number: int
    waves: tuple[tuple[int, int, int], ...]
    unfinished: tuple[int, ...]
    pausing: tuple[int, ...]
    goes_on: bool
    claimed: tuple[int, ...] = ()


class RanksStuck(msgspec.Struct, frozen=True, gc=False):
    """Ranks wait in a collective that others have not entered.

    Attributes:
        engine: the lowest rank that waits.
        group: ``device`` or ``host``; within one, operations meet in order.
        entered: (rank, kind of operation) of those who wait.
        missing: ranks that have not come.
        states: what each rank is at, by rank.
        for_good: nothing that could still arrive helps: the missing ranks wait elsewhere for those
            who are here, are dead, or came to another operation. Else a message could free them,
            and there was none under way.
        elsewhere: (rank, group, kind of operation) of those missing that wait themselves.
        log: (rank, what it did, what it has not taken) by rank: how often it entered operations
            since all met last, and messages that it took since then, in order; messages in its
            mailbox, in order. Of what is equal the number stands in front, as in ``16 forward``.
        met: where all met last, such as ``exchange 3``; ``""``: nowhere yet.
        dropped: (rank, how many messages it took before those that ``log`` still has), of ranks
            that took more than are kept.
    """

    engine: int
    group: str
    entered: tuple[tuple[int, str], ...]
    missing: tuple[int, ...]
    states: tuple[str, ...]
    for_good: bool
    elsewhere: tuple[tuple[int, str, str], ...] = ()
    log: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...] = ()
    met: str = ""
    dropped: tuple[tuple[int, int], ...] = ()


class RanksSpin(msgspec.Struct, frozen=True, gc=False):
    """Ranks run dummy steps without end: nobody has work, and no exchange lets them stop.

    Attributes:
        engine: the lowest rank.
        pausing: ranks that wait for all to be told to pause.
        states: what each rank is at, by rank.
        log, met, dropped: as of ranks that are stuck, but from the last meeting but one to the
            last.
    """

    engine: int
    pausing: tuple[int, ...]
    states: tuple[str, ...]
    log: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...] = ()
    met: str = ""
    dropped: tuple[tuple[int, int], ...] = ()


class GroupSwitched(msgspec.Struct, frozen=True, gc=False):
    """Old and new ranks met, and the group is another one now (an elastic change).

    Attributes:
        engine: the rank that came last; without meetings, the one that tells.
        before, ranks: members until now, and from now on.
        running, wave, step: what all of the new group were told: the most of any of them.
    """

    engine: int
    before: tuple[int, ...]
    ranks: tuple[int, ...]
    running: bool
    wave: int
    step: int


class ElasticNoticeSent(msgspec.Struct, frozen=True, gc=False):
    """An engine told its frontend how far an elastic change is, as vLLM names it."""

    engine: int
    notice: str


class EngineRemoved(msgspec.Struct, frozen=True, gc=False):
    """The process of an engine ended because its group shrank."""

    engine: int


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
    | RankMoved
    | StartWaveIgnored
    | ExchangeHeld
    | RanksStuck
    | RanksSpin
    | GroupSwitched
    | ElasticNoticeSent
    | EngineRemoved
)
Observer = Callable[[MockEvent], None]


def ignore(_event: MockEvent) -> None:
    """Observe nothing."""
