"""Invariant answer.failure-has-a-cause."""

from __future__ import annotations

from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import OutputSent

VOCABULARY = 257
"""Tokens of the byte-level model that real frontends are given."""
ENDS_WELL = frozenset({"stop", "length", "repetition"})
"""Finish reasons behind which there is an answer."""


class FailureHasACause(RequestInvariant):
    """A call whose engine answered it in full does not fail for another one's fault.

    Statement: While a frontend is sound, every call whose engine ended it with stop, length or
        repetition, and whose caller waits for it, ends finished.
    Reason: The fault of one request, one caller or one engine must harm no other: what a caller
        gets is decided by its own request.
    Source: protocol page, sections 8.1 and 16 (blast radius); vllm#54762 and the documented
        behaviour of the OpenAI routes.
    Limits: A frontend that failed as a whole, or is shutting down, is left out, as are calls
        that share an id, calls with parameters of their own (which a mock engine may not have
        honoured), tokens that no byte-level vocabulary has, and a call that an engine ended before it
        had the ADD, or that another engine ended.
    """

    id = "answer.failure-has-a-cause"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((OutputSent,))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._odd: set[str] = set()
        self._own_parameters = {
            step.call.id
            for step in context.scenario.steps
            if step.call is not None and step.call.body
        }

    def see(self, record: Record) -> None:
        """Note requests with tokens that no vocabulary has."""
        event = record.event
        if isinstance(event, OutputSent) and any(token >= VOCABULARY for token in event.tokens):
            self._odd.add(event.request_id)

    def at_rest(self) -> None:
        """Look at what became of the calls that their engines answered."""
        for episode in self.adds.episodes:
            final, calls = episode.finish, self.calls_of(episode)
            if final is None or not isinstance(final.event, OutputSent) or len(calls) != 1:
                continue
            event, call = final.event, calls[0]
            if call.op in self._own_parameters or episode.event.request_id in self._odd:
                continue
            if event.finish not in ENDS_WELL or call.end is None or call.ended is None:
                continue
            if call.left is not None or call.abort_asked is not None:
                continue
            if self.stray_end(episode, until=call.ended.seq):
                continue
            if call.end.outcome == "finished":
                self.exercised += 1
            elif call.end.outcome == "failed" and self.state.sound and call.ended.seq > final.seq:
                self.exercised += 1
                self.violate(
                    f"call {call.op} failed, although its engine answered it in full",
                    expected=f"call {call.op} finished, {event.finish}",
                    seen=f"call {call.op} failed, {call.end.error}: {call.end.message}",
                    witness=(episode.add, final, call.ended),
                )
