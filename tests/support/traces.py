"""Hand-written traces for the tests of invariants: short names for events, and a judge."""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from client.events import ClientEvent
from harness.invariants.base import Invariant, Judge, RunContext, Verdict
from harness.scenario.model import Scenario
from harness.targets.capabilities import CAPABILITIES
from harness.trace.events import (
    CallEnded,
    CallOutput,
    CallStarted,
    CancelRequested,
    Event,
    Fenced,
    Healed,
    LogLine,
    Record,
    RunEnded,
    UtilityEnded,
    UtilityStarted,
)
from mock_engines.events import (
    AbortSeen,
    AddSeen,
    OutputSent,
    StartWaveSeen,
    UtilityReplySent,
    UtilitySeen,
    WaveNoticeSent,
)

WHITE = frozenset(CAPABILITIES) - {"see.log"}
"""What a reference client can show."""
BLACK = frozenset({"see.wire", "see.results", "see.health", "see.log"})
"""What a real frontend can show."""
END = (Healed(), Fenced("end"), RunEnded(()))
STEP = {"fence": True}


def scenario(**parts: Any) -> Scenario:
    """A scenario with just what a test names."""
    steps = parts.pop("steps", [STEP])
    return Scenario.model_validate(
        {"title": "t", "promise": "p", "refs": ["r"], "steps": steps, **parts}
    )


def judge(
    cls: type[Invariant],
    *events: Event,
    release: str = "0.33.0",
    black: bool = False,
    ranks: tuple[int, ...] = (0, 1),
    **parts: Any,
) -> Verdict:
    """Let one invariant judge a trace; a black box shows no event of the client."""
    topology = {"engines": len(ranks), "ranks": list(ranks), **parts.pop("topology", {})}
    story = scenario(topology=topology, **parts)
    capabilities = BLACK if black else WHITE
    judging = Judge([cls], RunContext(story, Version(release), capabilities, ranks))
    for seq, event in enumerate(events):
        if black:
            assert not isinstance(event, ClientEvent)
        judging.feed(Record(seq, seq, event))
    (verdict,) = judging.verdicts()
    return verdict


def held(verdict: Verdict) -> bool:
    """Held, with at least one occurrence."""
    return verdict.verdict == "held" and verdict.exercised > 0


def violated(verdict: Verdict, *witness: int) -> bool:
    """Violated, with exactly this witness and both sides told."""
    assert verdict.verdict == "violated", verdict
    assert verdict.message
    assert verdict.expected
    assert verdict.seen
    assert verdict.expected != verdict.seen
    assert verdict.witness == witness
    return True


def unexercised(verdict: Verdict) -> bool:
    """Not judged, as the situation never arose."""
    return (verdict.verdict, verdict.reason) == ("not_judged", "never exercised")


# --- short names ----------------------------------------------------------------------------


def call(op: str, *, rank: int | None = None, **fields: Any) -> CallStarted:
    """A caller begins."""
    text = fields.get("text", ())
    return CallStarted(op, fields.get("external", op), rank, text, fields.get("surface", "native"))


def piece(op: str, *tokens: int, finish: str | None = None) -> CallOutput:
    """A caller receives tokens."""
    return CallOutput(op, tokens, finish)


def done(op: str) -> CallEnded:
    """A call finished."""
    return CallEnded(op, "finished", "length", None, "")


def failed(op: str, error: str = "Transport") -> CallEnded:
    """A call failed."""
    return CallEnded(op, "failed", None, error, "text")


def cancelled(op: str) -> CallEnded:
    """A call was cancelled."""
    return CallEnded(op, "cancelled", None, None, "")


def leave(op: str) -> CancelRequested:
    """A caller leaves."""
    return CancelRequested(op, "cancel")


def add(engine: int, request_id: str, wave: int = 0, external: str | None = None) -> AddSeen:
    """ADD arrives."""
    name = external or request_id
    return AddSeen(engine, request_id, name, wave, None, 0, (1,), "", ())


def out(engine: int, request_id: str, *tokens: int, finish: str | None = None) -> OutputSent:
    """An engine sends an output row."""
    return OutputSent(engine, request_id, tokens, finish)


def abort(engine: int, *request_ids: str) -> AbortSeen:
    """ABORT arrives."""
    return AbortSeen(engine, request_ids)


def wave(engine: int, number: int, exclude: int | None = None) -> StartWaveSeen:
    """START_DP_WAVE arrives."""
    return StartWaveSeen(engine, number, exclude)


def start(engine: int, number: int) -> WaveNoticeSent:
    """An engine sends start_wave."""
    return WaveNoticeSent(engine, "start", number)


def complete(engine: int, number: int) -> WaveNoticeSent:
    """An engine sends wave_complete."""
    return WaveNoticeSent(engine, "complete", number)


def utility(op: str, method: str = "is_sleeping", via: str = "method") -> UtilityStarted:
    """A caller begins a utility call."""
    return UtilityStarted(op, method, via)


def seen(engine: int, call_id: int, method: str = "is_sleeping") -> UtilitySeen:
    """UTILITY arrives."""
    return UtilitySeen(engine, call_id, method, "[]", 0)


def reply(
    engine: int,
    call_id: int,
    value: str = "True",
    failure: str | None = None,
    method: str = "is_sleeping",
) -> UtilityReplySent:
    """An engine answers."""
    return UtilityReplySent(engine, call_id, method, failure, value)


def result(op: str, value: str = "True", method: str = "is_sleeping") -> UtilityEnded:
    """A utility call finished."""
    return UtilityEnded(op, method, "finished", value, None, "")


def utility_failed(
    op: str, error: str = "UtilityCallFailed", message: str = "", method: str = "is_sleeping"
) -> UtilityEnded:
    """A utility call failed."""
    return UtilityEnded(op, method, "failed", "None", error, message)


def utility_cancelled(op: str, method: str = "is_sleeping") -> UtilityEnded:
    """A utility call was cancelled."""
    return UtilityEnded(op, method, "cancelled", "None", None, "")


def warning(call_id: int) -> LogLine:
    """The frontend warns of an unexpected utility reply."""
    return LogLine("WARN", "utility-dropped", (("call_id", str(call_id)),), "text")
