"""Invariant answer.finish-is-the-engines."""

from __future__ import annotations

from harness.invariants._adds import Episode
from harness.invariants._calls import Call
from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import OutputSent

SUCCESS = frozenset({"stop", "length"})
"""Finish reasons that mean: this is the whole answer."""
NONE = "none"


class FinishIsTheEngines(RequestInvariant):
    """A caller sees the finish reason that its engine gave; failure never looks like success.

    Statement: For every call that ended finished with stop or length, its engine sent this very
        reason; and where an engine sent stop or length to a caller who waits, no other reason is
        shown.
    Reason: An answer that was cut off by an error, an abort or a repetition and looks whole is
        used as if it were; one that was whole and looks cut off is asked for again.
    Source: protocol page, sections 5.4 and 8; OpenAI API, ``finish_reason``; vLLM
        ``FinishReason``. Releases up to 0.24 showed a repetition as stop.
    Limits: Reasons that a surface cannot express may be shown as another one, but not as stop or
        length. Left out: calls that share an id, calls with stop strings (the frontend ends
        those itself), and calls whose caller left or asked for an abort.
    """

    id = "answer.finish-is-the-engines"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((OutputSent,))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._finals: dict[str, list[Record]] = {}
        self._own_stops = {
            step.call.id
            for step in context.scenario.steps
            if step.call is not None and (step.call.stop or "stop" in step.call.body)
        }

    def see(self, record: Record) -> None:
        """Collect final outputs."""
        event = record.event
        if isinstance(event, OutputSent) and event.finish is not None:
            self._finals.setdefault(event.request_id, []).append(record)

    def at_rest(self) -> None:
        """Compare; only now are the events of all processes in."""
        episodes: dict[str, list[Episode]] = {}
        for episode in self.adds.episodes:
            calls = self.calls_of(episode)
            if len(calls) == 1:
                episodes.setdefault(calls[0].op, []).append(episode)
        for call in self.calls.calls.values():
            if self._is_judged(call):
                self._compare(call, episodes.get(call.op, []))

    def _is_judged(self, call: Call) -> bool:
        if call.end is None or call.end.outcome != "finished" or call.op in self._own_stops:
            return False
        if call.left is not None or call.abort_asked is not None:
            return False
        return len(self.calls.of_request(call.event.external_id)) == 1

    def _of(self, episode: Episode) -> list[Record]:
        return self._finals.get(episode.event.request_id, [])

    def _compare(self, call: Call, episodes: list[Episode]) -> None:
        assert call.end is not None
        assert call.ended is not None
        shown = call.end.finish or NONE
        finals = [record for episode in episodes for record in self._of(episode)]
        given = [_finish(record) for record in finals]
        if not finals and shown not in SUCCESS:
            return
        self.exercised += 1
        # What was sent before the ADD arrived came too early for the caller, or just in time.
        early = sum(r.seq < episode.add.seq for episode in episodes for r in self._of(episode))
        # What comes behind the first final is dropped; several engines may race to be first.
        several = len({_engine(record) for record in finals}) > 1
        possible = given if several else given[: early + 1]
        if shown in SUCCESS:
            right = shown in possible
        else:
            right = any(finish not in SUCCESS for finish in possible)
        if right:
            return
        self.violate(
            f"call {call.op} shows the finish reason {shown}, which its engine did not give",
            expected=f"finish reason {' or '.join(possible) or NONE}"
            f"{'' if possible else ': the engine never ended it'}",
            seen=f"finish reason {shown}",
            witness=(*(episode.add for episode in episodes), *finals[:1], call.ended),
        )


def _finish(record: Record) -> str:
    event = record.event
    assert isinstance(event, OutputSent)
    return event.finish or NONE


def _engine(record: Record) -> int:
    event = record.event
    assert isinstance(event, OutputSent)
    return event.engine
