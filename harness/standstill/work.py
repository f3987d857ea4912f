"""What each engine has got and not answered, by the trace, and what its script made of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from client.protocol.ids import CallId
from client.protocol.messages import UtilityCall
from harness.scenario.model import Scenario
from harness.trace.events import Record
from mock_engines.behaviours.model import Action
from mock_engines.events import (
    AbortSeen,
    AddSeen,
    EngineDied,
    EngineJoined,
    EngineRemoved,
    EngineResumed,
    EngineStalled,
    FinishedOnlySent,
    MockEvent,
    OutputSent,
    StartWaveSeen,
    UtilityReplySent,
    UtilitySeen,
)
from mock_engines.matching import Message, Plan, RuleBook, names_of
from mock_engines.specs import script_for

Why = Literal["answered", "aborted", "died"]
ANSWERS: dict[str, frozenset[str]] = {
    "utility": frozenset({"default", "reply", "reply_with", "fail", "raw"}),
    "add": frozenset({"default", "stream", "output", "finish_only", "raw"}),
}
"""Kind of a message → actions that may answer it, or end the request."""


class Held(msgspec.Struct):
    """A message that an engine has got, and not answered.

    Attributes:
        record: of its arrival.
        plan: what the engine is to do with it.
        tokens: how many it has sent for it.
    """

    record: Record
    plan: Plan
    tokens: int = 0

    @property
    def seq(self) -> int:
        """Number of the event of its arrival."""
        return self.record.seq


class Left(msgspec.Struct, frozen=True):
    """Why an engine no longer holds a message.

    Attributes:
        why: ``answered``, ``aborted`` or ``died``: its engine did.
        record: the event that shows it.
    """

    why: Why
    record: Record


class WorkBook:
    """Engines as a trace shows them; rules count what arrives as the engines themselves do.

    Attributes:
        left: number of the event of an arrival → why the message is held no more.
        calls: rank → call id → the call; ``requests``: rank → request id → the request.
        joined, dead, stalled: rank → since when.
    """

    def __init__(self, scenario: Scenario, records: Iterable[Record]) -> None:
        self._scenario = scenario
        self._rules: dict[int, RuleBook] = {}
        self.calls: dict[int, dict[int, Held]] = {}
        self.requests: dict[int, dict[str, Held]] = {}
        self.left: dict[int, Left] = {}
        self.joined: dict[int, Record] = {}
        self.dead: dict[int, Record] = {}
        self.stalled: dict[int, Record] = {}
        for record in records:
            self._feed(record)

    def held(self) -> list[tuple[int, Held]]:
        """Everything that is not answered, with its engine, the oldest first."""
        found = [
            (rank, each)
            for book in (self.calls, self.requests)
            for rank, items in book.items()
            for each in items.values()
        ]
        return sorted(found, key=lambda item: item[1].seq)

    def _plan(self, rank: int, message: Message, names: Iterable[str], seen: MockEvent) -> Plan:
        rules = self._rules.get(rank)
        if rules is None:
            script = script_for(rank, self._scenario.engines)
            rules = self._rules[rank] = RuleBook(script.rules)
        return rules.plan(message, names, seen)

    def _feed(self, record: Record) -> None:
        match event := record.event:
            case UtilitySeen(engine=rank, call_id=call_id):
                call = UtilityCall(event.client_index, CallId(call_id), event.method, [])
                plan = self._plan(rank, Message("utility", call=call), (), event)
                self.calls.setdefault(rank, {})[call_id] = Held(record, plan)
            case UtilityReplySent(engine=rank, call_id=call_id):
                self._let_go(self.calls.get(rank, {}).pop(call_id, None), "answered", record)
            case AddSeen(engine=rank, request_id=request_id):
                names = names_of(request_id, event.external_id)
                plan = self._plan(rank, Message("add"), names, event)
                self.requests.setdefault(rank, {})[request_id] = Held(record, plan)
            case OutputSent(engine=rank):
                self._output(rank, event, record)
            case FinishedOnlySent(engine=rank, request_ids=ids):
                self._forget(rank, ids, "answered", record)
            case AbortSeen(engine=rank, request_ids=ids):
                names = tuple(name for each in ids for name in self._names(rank, each))
                self._plan(rank, Message("abort", request_ids=ids), names, event)
                self._forget(rank, ids, "aborted", record)
            case StartWaveSeen(engine=rank):
                self._plan(rank, Message("start_wave"), (), event)
            case _:
                self._life(record)

    def _names(self, rank: int, request_id: str) -> tuple[str, ...]:
        known = self.requests.get(rank, {}).get(request_id)
        external = None if known is None else getattr(known.record.event, "external_id", None)
        return names_of(request_id, external)

    def _output(self, rank: int, event: OutputSent, record: Record) -> None:
        if event.finish is not None:
            self._forget(rank, (event.request_id,), "answered", record)
        elif (held := self.requests.get(rank, {}).get(event.request_id)) is not None:
            held.tokens += len(event.tokens)

    def _forget(self, rank: int, request_ids: Iterable[str], why: Why, record: Record) -> None:
        for request_id in request_ids:
            self._let_go(self.requests.get(rank, {}).pop(request_id, None), why, record)

    def _let_go(self, held: Held | None, why: Why, record: Record) -> None:
        if held is not None:
            self.left[held.seq] = Left(why, record)

    def _life(self, record: Record) -> None:
        match record.event:
            case EngineJoined(engine=rank):
                self.joined[rank] = record
                self.dead.pop(rank, None)
            case EngineDied(engine=rank) | EngineRemoved(engine=rank):
                self.dead[rank] = record
                gone = (
                    *self.calls.pop(rank, {}).values(),
                    *self.requests.pop(rank, {}).values(),
                )
                for held in gone:
                    self._let_go(held, "died", record)
                self.stalled.pop(rank, None)
            case EngineStalled(engine=rank):
                self.stalled[rank] = record
            case EngineResumed(engine=rank):
                self.stalled.pop(rank, None)
            case _:
                return


class Halt(msgspec.Struct, frozen=True):
    """Where an engine is in what it does with a message.

    Attributes:
        text: in words, such as ``at gate `g```; ``""``: not known.
        gate: at which it waits.
        ignored: the action that keeps the message from changing anything, as the file has it.
        silent: all that a rule does with it is none of what could answer it: the actions.
    """

    text: str = ""
    gate: str | None = None
    ignored: str = ""
    silent: str = ""


def halt_of(held: Held, closed: Iterable[str]) -> Halt:
    """Say at which of its actions an engine waits.

    ``closed``: gates at which somebody waits now.
    """
    waits, delays = {*closed}, ""
    for action in held.plan.actions:
        found = _at(action, held.tokens, waits)
        if found is not None:
            return found
        if action.delay_ms is not None:
            delays = f"in, or behind, `delay_ms: {action.delay_ms}`"
    if not any(action.verb in ANSWERS[held.plan.message.kind] for action in held.plan.actions):
        verbs = dict.fromkeys(f"`{action.verb}`" for action in held.plan.actions)
        return Halt(silent=", ".join(verbs) or "it does nothing")
    return Halt(delays)


def _at(action: Action, tokens: int, waits: set[str]) -> Halt | None:
    if action.hang is True:
        return Halt("for ever (`hang: true`)")
    if action.hang in waits:
        return Halt(f"at gate `{action.hang}`", action.hang)
    if action.drop:
        return Halt(ignored="drop: true")
    stream = action.stream
    if stream is None:
        return None
    sent = f"{tokens} token{'' if tokens == 1 else 's'} sent"
    if stream.gate in waits and tokens >= (stream.pause_at or 0):
        return Halt(f"at gate `{stream.gate}`, {sent}", stream.gate)
    if stream.finish is None:
        return Halt(f"without an end (`finish: null`), {sent}")
    return None


def fate_of(added: Sequence[Record], book: WorkBook) -> str:
    """Say what became of a request, as a clause; ``""`` while an engine holds it.

    ``added``: its arrivals at engines, of which there is one at least.
    """
    at = {each.seq for _, each in book.held()}
    if any(record.seq in at for record in added):
        return ""
    came = f"ADD #{added[-1].seq}"
    left = book.left[added[-1].seq]
    if left.why == "died":
        gone = "was taken away" if isinstance(left.record.event, EngineRemoved) else "died"
        return f": its engine {gone} with it ({came}, gone since #{left.record.seq})"
    if left.why == "aborted":
        return f": its engine was told to abort it ({came}, ABORT #{left.record.seq})"
    return f": its engine is through with it ({came}), its caller is not told"
