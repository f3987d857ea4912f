"""From what is known when a step is given up to the words of its report. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from client.protocol.shown import name_shown
from harness.expectations import VIOLATED, Op, Outcome, describe_match
from harness.reports.visible import printable
from harness.reports.wording import counted
from harness.results import ENDS
from harness.scenario.model import EngineStep, EventMatch, Scenario, Step
from harness.standstill.gates import opener, waiters
from harness.standstill.work import Held, WorkBook, fate_of, halt_of
from harness.trace.events import (
    CallEnded,
    CallStarted,
    CancelRequested,
    Record,
    RequestStarted,
    ScaleStarted,
    StepBegan,
    UtilityStarted,
)
from harness.trace.kinds import class_of
from harness.trace.render import describe
from mock_engines.events import AddSeen, UtilitySeen

LINES_MAX = 8
"""Lines of one sort that are told, such as messages that engines hold."""
NAMED_MAX = 4
_STARTS = (CallStarted, UtilityStarted, RequestStarted, ScaleStarted)


class Stand(msgspec.Struct, frozen=True):
    """What is known when a step is given up.

    Attributes:
        scenario: what is played.
        index: of the step, from 0.
        records: the trace so far.
        matches: whether a record is one that a match selects.
        ops: operations by id.
        closed: gates at which somebody waits now; ``opened``: those that are open, ``*`` all.
        busy: engines in which something runs that waits for nothing scripted.
        fence: what the fence waits for; ``""``: the step is none.
        states: of engines that step together, a line each.
        limit_s: how long the step had, in seconds.
        black_box: the frontend does not show what it is at.
    """

    scenario: Scenario
    index: int
    records: Sequence[Record]
    matches: Callable[[Record, EventMatch], bool]
    ops: Mapping[str, Op]
    closed: tuple[str, ...]
    opened: tuple[str, ...]
    busy: tuple[int, ...]
    fence: str
    states: tuple[str, ...]
    limit_s: float
    black_box: bool

    @property
    def step(self) -> Step:
        """The step."""
        return self.scenario.steps[self.index]


def describe_step(step: Step) -> str:
    """Name a step for people: verb and what it is about."""
    if step.wait is not None:
        return f"wait for {step.wait.count} × {describe_match(step.wait)}"
    if step.finish is not None:
        return f"finish {', '.join(step.finish)}"
    return step.verb


def which_step(index: int, step: Step) -> str:
    """Name a step by its number, too."""
    return f"step {index} ({describe_step(step)})"


def tell(stand: Stand) -> Outcome:
    """Report a step that did not come to its end."""
    began = next(
        (
            record
            for record in reversed(stand.records)
            if isinstance(record.event, StepBegan) and record.event.index == stand.index
        ),
        None,
    )
    since = "" if began is None else f" since #{began.seq}"
    missing, near = _missing(stand)
    book = WorkBook(stand.scenario, stand.records)
    first = f"it has waited{since}, for {stand.limit_s:g} s: {missing}"
    lines, shown = _holders(stand, book)
    calls = list(_open_calls(stand, book))
    what = [*lines, *(line for line, _ in calls)]
    if not lines and stand.step.engine is None:
        what.append(_nothing_holds(stand, book, open_calls=bool(calls)))
    lockstep = [f"  {state}" for state in stand.states]
    seen = "\n".join((first, *(f"  {line}" for line in what), *lockstep))
    numbers = {*near, *shown, *(seq for _, seq in calls if seq is not None)}
    if began is not None:
        numbers.add(began.seq)
    expected = f"{which_step(stand.index, stand.step)} {ENDS}"
    return Outcome(VIOLATED, expected, seen, tuple(sorted(numbers)))


# --- what is missing ------------------------------------------------------------------------


def _missing(stand: Stand) -> tuple[str, list[int]]:
    """What the step waits for and has not got; events that come near to it."""
    step = stand.step
    if step.wait is not None:
        return _events(stand, step.wait, step.wait.count)
    if step.finish is not None:
        names = [name for name in step.finish if _pending(stand, name)]
        has = "has" if len(names) == 1 else "have"
        return f"{_some([f'`{name}`' for name in names])} {has} not ended", []
    if step.verb == "fence":
        return f"not all that was sent has been acted on: {stand.fence or 'engines work'}", []
    if step.engine is not None:
        return _told_to_do(stand, step.engine), []
    if step.load is not None or step.crowd is not None:
        return _callers(stand), []
    if step.verb == "connect":
        return "startup has neither succeeded nor failed", []
    return f"`{step.verb}` is not done, and only the frontend can end it", []


def _callers(stand: Stand) -> str:
    """Callers of a ``load`` or ``crowd`` step that were ended with it, not by it."""
    left = {
        record.event.op for record in stand.records if isinstance(record.event, CancelRequested)
    }
    ended: list[str] = []
    for record in reversed(stand.records):
        event = record.event
        if isinstance(event, StepBegan):
            break
        if isinstance(event, CallEnded) and event.outcome == "cancelled" and event.op not in left:
            ended.append(event.op)
    if not ended:
        return "it has not begun all of its callers"
    return f"{counted(len(ended), 'caller')} had not ended, such as `{ended[-1]}`"


def _told_to_do(stand: Stand, step: EngineStep) -> str:
    """At which action of an ``engine`` step its engines wait: that was ended with the step."""
    rest = "the engines have not done what it tells them"
    for action in step.do:
        if action.hang is True:
            return f"{rest}, and are at `hang: true`, which is for ever"
        if action.hang is not None and action.hang not in stand.opened:
            opens = opener(stand.scenario, action.hang, stand.index)
            return f"{rest}, and wait at gate `{action.hang}`{opens}"
    return rest


def _pending(stand: Stand, name: str) -> bool:
    op = stand.ops.get(name)
    return op is not None and op.outcome == "pending"


def _events(stand: Stand, wanted: EventMatch, count: int) -> tuple[str, list[int]]:
    kind = class_of(wanted.event)
    alike = [record for record in stand.records if type(record.event) is kind]
    found = [record for record in alike if stand.matches(record, wanted)]
    text = f"{len(found)} of {count} × {describe_match(wanted)} came"
    if found:
        return f"{text}, the last at #{found[-1].seq}", [found[-1].seq]
    if not alike:
        return f"{text}, and no other `{wanted.event}` either", []
    others = f"{len(alike)} × `{wanted.event}` that {'is' if len(alike) == 1 else 'are'} another"
    last = alike[-1]
    shown = printable(describe(last.event))
    return f"{text}; {others}, the last #{last.seq} {shown}", [last.seq]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED_MAX])
    return f"{shown} and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else shown


# --- what holds it up -----------------------------------------------------------------------


def _holders(stand: Stand, book: WorkBook) -> tuple[list[str], set[int]]:
    """Lines on engines and gates that hold something up; numbers of the events they name."""
    lines: list[str] = []
    shown: set[int] = set()
    told: set[str] = set()
    for line, seq, gates in _away(stand, book):
        lines.append(line)
        shown.update(seq)
        told.update(gates)
    held = book.held()
    for rank, each in held[:LINES_MAX]:
        line, gates = _held(stand, rank, each)
        lines.append(line)
        shown.add(each.seq)
        told.update(gates)
    if len(held) > LINES_MAX:
        lines.append(f"… and {len(held) - LINES_MAX} more messages that are not answered")
    for gate in stand.closed:
        lines.extend(_at_gate(stand, gate, told=gate in told))
    busy = set(stand.busy) - {rank for rank, _ in held}
    lines.extend(f"engine {rank} is at work" for rank in sorted(busy))
    return lines, shown


def _away(stand: Stand, book: WorkBook) -> Iterator[tuple[str, list[int], list[str]]]:
    """Engines that are not there, or stand still: line, events, gates."""
    for rank in stand.scenario.topology.rank_list:
        if (record := book.stalled.get(rank)) is not None:
            gate = str(getattr(record.event, "gate", ""))
            opens = opener(stand.scenario, gate, stand.index)
            still = f"engine {rank} stands still since #{record.seq}, at gate `{gate}`{opens}"
            yield still, [record.seq], [gate]
        elif (record := book.dead.get(rank)) is not None:
            yield f"engine {rank} is gone since #{record.seq}", [record.seq], []
        elif rank not in book.joined:
            yield f"engine {rank} has not joined", [], []


def _held(stand: Stand, rank: int, held: Held) -> tuple[str, list[str]]:
    """One message that an engine has not answered: line, gates."""
    event = held.record.event
    if isinstance(event, UtilitySeen):
        method = name_shown(event.method)
        what, verb, had = f"`{method}` (#{held.seq})", "answered", "its reply to "
    else:
        what, verb, had = f"{_request(stand, held.record)} (#{held.seq})", "ended", ""
    halt = halt_of(held, stand.closed)
    if halt.ignored:
        return f"engine {rank} ignores {what}: `{halt.ignored}`", []
    if halt.silent:
        does = {"answered": "answers", "ended": "ends"}[verb]
        why = f"nothing that its rule does {does} it ({halt.silent})"
        return f"engine {rank} has not {verb} {what}: {why}", []
    if not halt.text:
        return f"engine {rank} has not {verb} {what}", []
    opens = "" if halt.gate is None else opener(stand.scenario, halt.gate, stand.index)
    gates = [] if halt.gate is None else [halt.gate]
    return f"engine {rank} holds {had}{what} {halt.text}{opens}", gates


def _request(stand: Stand, record: Record) -> str:
    """A request by the name that the scenario has for it."""
    for name, op in stand.ops.items():
        if op.kind == "call" and stand.matches(record, EventMatch(event="add", request=name)):
            return f"request `{name}`"
    assert isinstance(record.event, AddSeen)
    return f"request `{name_shown(record.event.request_id)}`"


def _at_gate(stand: Stand, gate: str, *, told: bool) -> Iterator[str]:
    """Who waits at a closed gate besides engines that hold a message there."""
    others = [
        who
        for who in waiters(stand.scenario, gate, stand.index)
        if not (told and who.startswith("engine"))
    ]
    if not others and not told:
        others = ["somebody waits there"]
    for other in others:
        opens = opener(stand.scenario, gate, stand.index)
        yield f"gate `{gate}` is closed{opens}: {other}"


def _open_calls(stand: Stand, book: WorkBook) -> Iterator[tuple[str, int | None]]:
    """Operations that have not ended, with where they began; those of a crowd are many."""
    begun = {
        record.event.op: record.seq for record in stand.records if isinstance(record.event, _STARTS)
    }
    pending = [op for op in stand.ops.values() if op.outcome == "pending"]
    for op in pending[:LINES_MAX]:
        since = begun.get(op.id)
        what = op.method or op.kind
        at = "" if since is None else f", since #{since}"
        yield f"`{op.id}` ({what}) is open{at}{_fate(stand, book, op)}", since
    if len(pending) > LINES_MAX:
        yield f"… and {len(pending) - LINES_MAX} more that are open", None


def _fate(stand: Stand, book: WorkBook, op: Op) -> str:
    """What became of a generation at the engines."""
    if op.kind != "call":
        return ""
    match = EventMatch(event="add", request=op.id)
    added = [
        record
        for record in stand.records
        if isinstance(record.event, AddSeen) and stand.matches(record, match)
    ]
    if not added:
        return ": no engine has got it"
    return fate_of(added, book)


def _nothing_holds(stand: Stand, book: WorkBook, *, open_calls: bool) -> str:
    """No engine and no gate holds it up: say what that leaves."""
    lost = [each for each in book.left.values() if each.why == "died"]
    if lost:
        number = counted(len(lost), "message")
        rest = f"no engine holds a message ({number} went with an engine), nobody waits at a gate"
    else:
        rest = "every engine has answered what it got, and nobody waits at a gate"
    if open_calls:
        return f"{rest}: what is missing is the frontend's to do"
    whose = "of its own accord" if stand.black_box else "by a timer"
    return f"{rest}; no call is open: it could only come from the frontend, {whose}"
