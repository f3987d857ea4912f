"""Events that the harness itself adds to the trace: what callers did and saw.

A trace is a list of ``Record``: number, time, event. Events come from three places:
``client.events`` (white box, reference client only), ``mock_engines.events`` (the wire, every
target) and this module (callers, faults, samples, log lines; every target that can).
"""

from __future__ import annotations

from dataclasses import dataclass

from client.events import ClientEvent
from mock_engines.events import MockEvent

BODY_MAX = 4_000
"""Longer bodies of answers are cut to this many characters in the trace."""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A caller began a generation.

    ``op`` is the step id; ``external_id`` is what ADD carries as external request id (with the
    API's prefix, if any).
    """

    op: str
    external_id: str
    explicit_rank: int | None
    rank_text: tuple[str, ...]
    surface: str


@dataclass(frozen=True, slots=True)
class CallOutput:
    """The caller received tokens, text, or both, as its surface shows them."""

    op: str
    tokens: tuple[int, ...]
    finish: str | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """``outcome``: finished, failed or cancelled. ``finish``: reason of a finished one.

    ``status``: HTTP status or name of the gRPC code, ``None`` without either.
    """

    op: str
    outcome: str
    finish: str | None
    error: str | None
    message: str
    status: int | str | None = None


@dataclass(frozen=True, slots=True)
class UtilityStarted:
    """A caller began a utility call. ``via`` as in the scenario step."""

    op: str
    method: str
    via: str


@dataclass(frozen=True, slots=True)
class UtilityEnded:
    """``value`` is ``repr`` of the result."""

    op: str
    method: str
    outcome: str
    value: str
    error: str | None
    message: str


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """A caller began an ``http`` or ``grpc`` step. ``what``: verb and path, or the method."""

    op: str
    what: str


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """An ``http`` or ``grpc`` step ended.

    ``status``: HTTP status, name of the gRPC code, ``None`` if there was no answer. ``body``:
    the answer's text, cut to ``BODY_MAX`` characters.
    """

    op: str
    what: str
    outcome: str
    status: int | str | None
    body: str
    error: str | None


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The caller left: its task was cancelled, its connection closed, its stream dropped."""

    op: str
    how: str


@dataclass(frozen=True, slots=True)
class AbortRequested:
    """The caller asked for these ops to be aborted."""

    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConnectEnded:
    """Startup of the frontend ended. ``error``: class name or ``None``."""

    error: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The registries of a white-box target.

    ``in_flight``: internal ids, sorted by engine order then id; ``pending_utility``: call ids;
    ``loads`` by rank; ``departing``: ids that are over, but taken until their ABORT is off.
    """

    label: str
    in_flight: tuple[str, ...]
    pending_utility: tuple[int, ...]
    loads: tuple[tuple[int, int], ...]
    wave: int | None
    running: bool | None
    departing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthSample:
    """What the frontend says of its health."""

    healthy: bool
    error: str | None
    message: str


@dataclass(frozen=True, slots=True)
class FaultInjected:
    """A scripted fault or action of the harness began. ``what`` is for people."""

    what: str


@dataclass(frozen=True, slots=True)
class GateWasOpened:
    """A named gate was opened."""

    gate: str


@dataclass(frozen=True, slots=True)
class Healed:
    """All gates are open and all link faults gone; liveness may be judged after this."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """Everything that was sent before has arrived and been acted on.

    ``phase``: ``step`` or ``end`` (after healing).
    """

    phase: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The frontend was stopped. ``open_ops``: ops that had not ended after the final fence."""

    open_ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientReleased:
    """The harness gave up its last reference to a white-box client after its shutdown.

    ``alive``: something of the client's own still keeps it alive.
    """

    alive: bool


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a black-box frontend's log.

    ``pattern`` is the id in its pattern table or ``other``; ``fields`` its parsed values as
    sorted pairs.
    """

    level: str
    pattern: str
    fields: tuple[tuple[str, str], ...]
    text: str


@dataclass(frozen=True, slots=True)
class ProcessSampled:
    """What the process of a black-box frontend used at one moment."""

    label: str
    rss_bytes: int
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class MetricsSampled:
    """Samples of ``/metrics`` that were asked for: name with labels → value, sorted."""

    samples: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ProcessExited:
    """A black-box frontend ended. Negative code = signal."""

    code: int


@dataclass(frozen=True, slots=True)
class StepBegan:
    """Step ``index`` (0-based) of the scenario began."""

    index: int
    verb: str


HarnessEvent = (
    CallStarted
    | CallOutput
    | CallEnded
    | UtilityStarted
    | UtilityEnded
    | RequestStarted
    | RequestEnded
    | CancelRequested
    | AbortRequested
    | ConnectEnded
    | Snapshot
    | HealthSample
    | FaultInjected
    | GateWasOpened
    | Healed
    | Fenced
    | RunEnded
    | ClientReleased
    | LogLine
    | ProcessSampled
    | MetricsSampled
    | ProcessExited
    | StepBegan
)
Event = ClientEvent | MockEvent | HarnessEvent


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a trace. ``seq``: number from 0; ``time_us``: loop time, microseconds."""

    seq: int
    time_us: int
    event: Event
