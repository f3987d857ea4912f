"""Invariant request.outputs-own-only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from harness.invariants._requests import RequestInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import CallOutput, Record
from mock_engines.events import OutputSent


@dataclass(slots=True)
class Sent:
    """Tokens that engines sent for one request id."""

    tokens: list[int] = field(default_factory=list)
    engines: dict[int, None] = field(default_factory=dict)
    early: bool = False
    """Something was sent before the ADD arrived; it may have been dropped."""


def _letters(text: str) -> tuple[int, ...]:
    """The tokens behind a text of mock engines; nothing for a text that may be anything else."""
    return tuple(text.encode("ascii")) if text.isascii() else ()


def holds(sent: list[int], seen: list[int], *, anywhere: bool) -> bool:
    """Whether ``seen`` is how ``sent`` begins, or a part of it anywhere."""
    if not anywhere:
        return sent[: len(seen)] == seen
    span = len(seen)
    return any(sent[i : i + span] == seen for i in range(len(sent) - span + 1))


class OutputsOwnOnly(RequestInvariant):
    """A caller sees the tokens of its own request, in order, and no others.

    Statement: For every call, the tokens that its caller received are the first tokens that were
        sent for its request, in the order in which they were sent; where a surface shows text
        only, the same holds for their text.
    Reason: Tokens that cross to another stream, get lost or change places are wrong answers that
        look right.
    Source: protocol page, sections 5.4 and 8.1.
    Limits: If several engines send for one id (the frontend does not check the sender), only the
        set of tokens is compared. If an id is used again, the tokens may stand anywhere in what
        was sent for it. Callers whose tokens the target cannot show see none. Text is compared
        where it is ASCII, each letter of which is one token of the mock engines.
    """

    id = "request.outputs-own-only"
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((OutputSent, CallOutput))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._sent: dict[str, Sent] = {}
        self._seen: dict[str, list[int]] = {}
        self._records: dict[str, list[Record]] = {}

    def see(self, record: Record) -> None:
        """Collect both sides."""
        event = record.event
        if isinstance(event, OutputSent):
            sent = self._sent.get(event.request_id)
            if sent is None:
                sent = self._sent[event.request_id] = Sent()
            sent.tokens.extend(event.tokens)
            sent.engines[event.engine] = None
            sent.early = sent.early or event.request_id not in self.adds.by_id
        else:
            assert isinstance(event, CallOutput)
            tokens = event.tokens or _letters(event.text)
            self._seen.setdefault(event.op, []).extend(tokens)
            self._records.setdefault(event.op, []).append(record)

    def at_rest(self) -> None:
        """Compare; only now are the events of all processes in."""
        ids: dict[str, list[str]] = {}
        for episode in self.adds.episodes:
            for call in self.calls_of(episode):
                names = ids.setdefault(call.op, [])
                if episode.event.request_id not in names:
                    names.append(episode.event.request_id)
        for op, seen in self._seen.items():
            if not seen:
                continue
            self.exercised += 1
            # An engine may send for a request whose ADD it never got.
            begun = self.calls.calls.get(op)
            names = ids.get(op) or [op if begun is None else begun.event.external_id]
            if not any(self._own(name, seen) for name in names):
                best = [self._sent[name].tokens for name in names if name in self._sent]
                self.violate(
                    f"call {op} received tokens that were not sent for it, or out of order",
                    expected=f"the first of {best[0] if best else []!r}",
                    seen=f"{seen!r}",
                    witness=self._records[op],
                )

    def _own(self, request_id: str, seen: list[int]) -> bool:
        sent = self._sent.get(request_id)
        if sent is None:
            return False
        if len(sent.engines) > 1:
            return not Counter(seen) - Counter(sent.tokens)
        # What was sent for one request of an id may reach the next one before its own ADD is there.
        reused = len(self.calls.of_request(request_id)) > 1
        return holds(sent.tokens, seen, anywhere=reused or sent.early)
