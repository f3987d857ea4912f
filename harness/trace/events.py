"""Events that the harness itself adds to the trace: what callers did and saw.

A trace is a list of ``Record``: number, time, event. Events come from three places:
``client.events`` (white box, reference client only), ``mock_engines.events`` (the wire, every
target) and this module (callers, faults, samples, log lines; every target that can).
"""

from __future__ import annotations

import msgspec

from client.events import ClientEvent
from mock_engines.events import MockEvent

BODY_MAX = 4_000
"""Longer bodies of answers are cut to this many characters in the trace."""


class CallStarted(msgspec.Struct, frozen=True, gc=False):
    """A caller began a generation.

    ``op`` is the step id; ``external_id`` is what ADD carries as external request id (with the
    API's prefix, if any).
    """

    op: str
    external_id: str
    explicit_rank: int | None
    rank_text: tuple[str, ...]
    surface: str


class CallOutput(msgspec.Struct, frozen=True, gc=False):
    """The caller received tokens, text, or both, as its surface shows them."""

    op: str
    tokens: tuple[int, ...]
    finish: str | None
    text: str = ""


class CallEnded(msgspec.Struct, frozen=True, gc=False):
    """``outcome``: finished, failed or cancelled. ``finish``: reason of a finished one.

    ``status``: HTTP status or name of the gRPC code, ``None`` without either.
    """

    op: str
    outcome: str
    finish: str | None
    error: str | None
    message: str
    status: int | str | None = None


class UtilityStarted(msgspec.Struct, frozen=True, gc=False):
    """A caller began a utility call. ``via`` as in the scenario step."""

    op: str
    method: str
    via: str


class UtilityEnded(msgspec.Struct, frozen=True, gc=False):
    """``value`` is ``repr`` of the result."""

    op: str
    method: str
    outcome: str
    value: str
    error: str | None
    message: str


class RequestStarted(msgspec.Struct, frozen=True, gc=False):
    """A caller began an ``http`` or ``grpc`` step. ``what``: verb and path, or the method."""

    op: str
    what: str


class RequestEnded(msgspec.Struct, frozen=True, gc=False):
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


class ScaleStarted(msgspec.Struct, frozen=True, gc=False):
    """A ``scale`` step began: there shall be ``to`` engines."""

    op: str
    to: int


class ScaleEnded(msgspec.Struct, frozen=True, gc=False):
    """A ``scale`` step ended. ``error``: class name or ``None``."""

    op: str
    to: int
    outcome: str
    error: str | None
    message: str


class CancelRequested(msgspec.Struct, frozen=True, gc=False):
    """The caller left: its task was cancelled, its connection closed, its stream dropped."""

    op: str
    how: str


class AbortRequested(msgspec.Struct, frozen=True, gc=False):
    """The caller asked for these ops to be aborted."""

    ops: tuple[str, ...]


class ConnectEnded(msgspec.Struct, frozen=True, gc=False):
    """Startup of the frontend ended. ``error``: class name or ``None``."""

    error: str | None
    message: str


class Snapshot(msgspec.Struct, frozen=True, gc=False):
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


class HealthSample(msgspec.Struct, frozen=True, gc=False):
    """What the frontend says of its health."""

    healthy: bool
    error: str | None
    message: str


class FaultInjected(msgspec.Struct, frozen=True, gc=False):
    """A scripted fault or action of the harness began. ``what`` is for people."""

    what: str


class GateWasOpened(msgspec.Struct, frozen=True, gc=False):
    """A named gate was opened."""

    gate: str


class Healed(msgspec.Struct, frozen=True, gc=False):
    """All gates are open and all link faults gone; liveness may be judged after this."""


class Fenced(msgspec.Struct, frozen=True, gc=False):
    """Everything that was sent before has arrived and been acted on.

    ``phase``: ``step`` or ``end`` (after healing).
    """

    phase: str


class RunEnded(msgspec.Struct, frozen=True, gc=False):
    """The frontend was stopped. ``open_ops``: ops that had not ended after the final fence."""

    open_ops: tuple[str, ...]


class ClientReleased(msgspec.Struct, frozen=True, gc=False):
    """The harness gave up its last reference to a white-box client after its shutdown.

    ``alive``: something of the client's own still keeps it alive.
    """

    alive: bool


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """A line of a black-box frontend's log.

    ``pattern`` is the id in its pattern table or ``other``; ``fields`` its parsed values as
    sorted pairs.
    """

    level: str
    pattern: str
    fields: tuple[tuple[str, str], ...]
    text: str


class ProcessSampled(msgspec.Struct, frozen=True, gc=False):
    """What the process of a black-box frontend used at one moment."""

    label: str
    rss_bytes: int
    descriptors: int
    threads: int


class MetricsSampled(msgspec.Struct, frozen=True, gc=False):
    """Samples of ``/metrics`` that were asked for: name with labels → value, sorted."""

    samples: tuple[tuple[str, float], ...]


class ProcessExited(msgspec.Struct, frozen=True, gc=False):
    """A black-box frontend ended. Negative code = signal."""

    code: int


class StepBegan(msgspec.Struct, frozen=True, gc=False):
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
    | ScaleStarted
    | ScaleEnded
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


class Record(msgspec.Struct, frozen=True, gc=False):
    """One line of a trace. ``seq``: number from 0; ``time_us``: loop time, microseconds."""

    seq: int
    time_us: int
    event: Event
