"""The name of every event class in scenario files, and one line of meaning each.

``wait``, ``count`` and ``order`` in a scenario name events by these kinds. Hyphen and underscore
are the same. ``tests/harness/trace`` fails if an event class has no kind.
"""

from __future__ import annotations

import difflib
import functools
import re
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from client import events as client
from harness.trace import events as harness
from harness.trace.events import Event, Record
from mock_engines import events as mock

if TYPE_CHECKING:  # the scenario package checks files with this module
    from harness.scenario.model import EventMatch

API_PREFIXES = ("", "cmpl-", "chatcmpl-", "resp_", "msg_")
"""What the HTTP edge puts before a caller's id (protocol page, 6.4)."""
_SUFFIX = re.compile(r"-[0-9a-f]{8}")
"""What the frontend appends to make an internal id (protocol page, 6.4)."""

KIND_OF: dict[type, tuple[str, str]] = {
    # the wire, as the mock engines see it: every target
    mock.EngineJoined: ("joined", "an engine finished its startup"),
    mock.GateOpened: ("ready_gate", "an engine received READY on its coordinator socket"),
    mock.AddSeen: ("add", "ADD arrived at an engine"),
    mock.AbortSeen: ("abort", "ABORT arrived at an engine"),
    mock.UtilitySeen: ("utility", "UTILITY arrived at an engine"),
    mock.StartWaveSeen: ("start_wave", "START_DP_WAVE arrived at an engine"),
    mock.UnknownSeen: ("unknown", "bytes that are no message arrived at an engine"),
    mock.OutputSent: ("output", "an engine sent one output row"),
    mock.FinishedOnlySent: ("finished-only", "an engine sent finished ids without an output"),
    mock.UtilityReplySent: ("reply", "an engine sent a utility reply"),
    mock.UtilityApplied: ("applied", "a utility took effect in an engine"),
    mock.WaveNoticeSent: ("notice", "an engine sent wave_complete or start_wave"),
    mock.StatsSent: ("stats", "an engine sent scheduler stats"),
    mock.RawSent: ("raw", "an engine sent scripted bytes"),
    mock.EngineDied: ("died", "an engine died"),
    mock.EngineStalled: ("stalled", "an engine stopped reading and sending"),
    mock.EngineResumed: ("resumed", "a stalled engine went on"),
    mock.EngineIdle: ("idle", "an engine has nothing left to do"),
    mock.RankMoved: ("moved", "the state of a rank that steps with others changed"),
    mock.StartWaveIgnored: ("start_wave-ignored", "START_DP_WAVE had no effect on a rank"),
    mock.ExchangeHeld: ("exchange", "all ranks met in an exchange of unfinished work"),
    mock.RanksStuck: ("stuck", "ranks wait in a collective for others"),
    mock.RanksSpin: ("spin", "ranks run dummy steps without end"),
    mock.GroupSwitched: ("switched", "the group of engines is another one"),
    mock.ElasticNoticeSent: ("elastic-notice", "an engine told how far an elastic change is"),
    mock.EngineRemoved: ("removed", "an engine ended because its group shrank"),
    # callers and the harness: every target
    harness.CallStarted: ("call-started", "a caller began a generation"),
    harness.CallOutput: ("call-output", "a caller received tokens"),
    harness.CallEnded: ("call-ended", "a generation ended for its caller"),
    harness.UtilityStarted: ("utility-started", "a caller began a utility call"),
    harness.UtilityEnded: ("utility-ended", "a utility call ended for its caller"),
    harness.RequestStarted: ("request-started", "a caller began an http or grpc step"),
    harness.RequestEnded: ("request-ended", "an http or grpc step ended"),
    harness.ScaleStarted: ("scale-started", "a change of the number of engines began"),
    harness.ScaleEnded: ("scale-ended", "a change of the number of engines ended"),
    harness.CancelRequested: ("cancel", "a caller left"),
    harness.AbortRequested: ("abort-requested", "a caller asked for aborts"),
    harness.ConnectEnded: ("connect-ended", "startup of the frontend ended"),
    harness.Snapshot: ("snapshot", "registries of a white-box frontend were read"),
    harness.HealthSample: ("health-sample", "the frontend was asked for its health"),
    harness.FaultInjected: ("fault", "a scripted fault or action began"),
    harness.GateWasOpened: ("gate-opened", "a named gate was opened"),
    harness.Healed: ("healed", "all gates are open and all link faults gone"),
    harness.Fenced: ("fenced", "all that was sent before was acted on"),
    harness.RunEnded: ("run-ended", "the frontend was stopped"),
    harness.ClientReleased: ("released", "the harness let go of a white-box client"),
    harness.LogLine: ("log", "a line of the frontend's log"),
    harness.ProcessSampled: ("process-sample", "memory and descriptors of the frontend"),
    harness.MetricsSampled: ("metrics-sample", "samples of the frontend's metrics"),
    harness.ProcessExited: ("exited", "the process of the frontend ended"),
    harness.StepBegan: ("step", "a step of the scenario began"),
    # inside the reference client: white-box targets
    client.RequestRegistered: ("request-registered", "a request entered the registry"),
    client.RequestReleased: ("request-released", "a request left the registry"),
    client.OutputDropped: ("dropped-output", "the client dropped an output"),
    client.AbortFailed: ("abort-failed", "the client could not send an ABORT"),
    client.UtilityRegistered: ("utility-registered", "a waiter of a utility call was registered"),
    client.UtilitySettled: ("utility-settled", "one engine's outcome of a utility call is known"),
    client.UtilityReleased: ("utility-released", "a waiter was removed without a reply"),
    client.UtilityReplyDropped: ("dropped-reply", "the client dropped a utility reply"),
    client.FirstRequestQueued: ("first-request-queued", "the client told its coordinator"),
    client.FirstRequestHandled: ("first-request", "the coordinator acted on a first request"),
    client.WaveNoticeHandled: ("wave-notice", "the coordinator acted on an engine's notice"),
    client.CoordinatorPublished: ("published", "the external coordinator published its state"),
    client.CoordinatorStateApplied: ("state-applied", "the client took over a publish"),
    client.HealthFailed: ("health", "a fatal error was seen by the client"),
    client.EngineConnected: ("connected", "startup finished for one engine, in the client"),
    client.ClientClosed: ("closed", "shutdown of the client finished"),
    client.EnginesChanged: ("engines-changed", "the client has other engines, or uses others"),
    client.ScaleNoticeQueued: ("scale-queued", "the client told its coordinator of a new size"),
    client.ScaleNoticeHandled: ("scale-handled", "the external coordinator took a new size over"),
}

EVENT_CLASSES: tuple[type[Event], ...] = typing.get_args(Event)
"""Every event class, client first, then mock engines, then the harness."""
FIELDS_OF: dict[type, tuple[str, ...]] = {cls: cls.__struct_fields__ for cls in EVENT_CLASSES}
"""Field names of each event class, in order."""


def _normal(kind: str) -> str:
    return kind.replace("_", "-")


_CLASS_OF = {_normal(kind): cls for cls, (kind, _meaning) in KIND_OF.items()}


class UnknownKindError(ValueError):
    """No event has this kind, or its events lack this field; the message names what exists."""


def kinds() -> dict[str, str]:
    """Return kind → meaning, sorted by kind (for docs and the schema)."""
    return dict(sorted(KIND_OF.values()))


@functools.cache
def class_of(kind: str) -> type:
    """Return the event class of a kind.

    Raises:
        UnknownKindError: there is none; the message suggests the nearest.
    """
    found = _CLASS_OF.get(_normal(kind))
    if found is None:
        raise UnknownKindError(_no_such("event kind", kind, kinds()))
    return found


def check_fields(kind: str, names: Iterable[str]) -> None:
    """Check that the events of a kind have these fields.

    Raises:
        UnknownKindError: unknown kind, or a field that its events lack.
    """
    fields = FIELDS_OF[class_of(kind)]
    for name in names:
        if name not in fields:
            raise UnknownKindError(_no_such(f"field of {kind!r}", name, fields))


def _no_such(what: str, word: str, choices: Iterable[str]) -> str:
    known = list(choices)
    near = difflib.get_close_matches(_normal(word), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"one of: {', '.join(known)}"
    return f"{word!r} is no {what}; {hint}"


# --- matching -------------------------------------------------------------------------------


class HasExternalId(Protocol):
    """An operation as the driver knows it, or the event that began it."""

    @property
    def external_id(self) -> str:
        """The caller's id, as ADD carries it; empty for a utility call."""


def id_belongs(request_id: str, external_id: str) -> bool:
    """Whether a request id on the wire belongs to a caller's id.

    It may be the id itself, the id with an API prefix, or either with the random suffix that
    makes it an internal id.
    """
    if not external_id:
        return False
    for prefix in API_PREFIXES:
        stem = prefix + external_id
        if request_id == stem:
            return True
        if request_id.startswith(stem) and _SUFFIX.fullmatch(request_id, len(stem)):
            return True
    return False


def matches(record: Record, wanted: EventMatch, ops: Mapping[str, HasExternalId]) -> bool:
    """Whether a record is what a step or an expectation asks for.

    ``request`` is the id of a call step: it matches events of that op, and events whose request
    id or external id belongs to it. ``ops``: the operations begun so far, by id.

    Raises:
        UnknownKindError: ``event`` is no kind, or ``where`` names a field that it has not.
    """
    event = record.event
    if type(event) is not class_of(wanted.event):
        return False
    if wanted.engine is not None and getattr(event, "engine", None) != wanted.engine:
        return False
    if wanted.method is not None and getattr(event, "method", None) != wanted.method:
        return False
    if wanted.request is not None and not _is_of(event, wanted.request, ops):
        return False
    if not wanted.where:
        return True
    check_fields(wanted.event, wanted.where)
    return all(
        _frozen(getattr(event, name)) == _frozen(value) for name, value in wanted.where.items()
    )


def _is_of(event: Event, op: str, ops: Mapping[str, HasExternalId]) -> bool:
    if getattr(event, "op", None) == op or op in getattr(event, "ops", ()):
        return True
    if type(event) is harness.CallStarted:  # two calls may share an id: only its own op counts
        return False
    external_id = ops[op].external_id if op in ops else op
    named: tuple[str | None, ...] = (
        getattr(event, "external_id", None),
        getattr(event, "request_id", None),
        *getattr(event, "request_ids", ()),
    )
    return any(name is not None and id_belongs(name, external_id) for name in named)


def _frozen(value: Any) -> Any:
    """Lists of a scenario file are tuples in events."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value
