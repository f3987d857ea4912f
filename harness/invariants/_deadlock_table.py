"""What each rank did since all ranks met last, as the lines of a table. Not an invariant.

A message that has *arrived* at a rank need not have been *taken*: it lies in the mailbox for as long
as the rank is in an operation. So the two stand in columns of their own, each with the event of the
arrival. What a rule of the scenario keeps from the loop is in neither, and of many messages that were
taken the oldest are not named: that one is not there shows nothing if any were dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.invariants._lockstep import GroupBook
from harness.invariants._wakes import WakeBook
from harness.trace.events import Record
from mock_engines.events import (
    AbortSeen,
    AddSeen,
    RanksSpin,
    RanksStuck,
    StartWaveSeen,
    UtilitySeen,
)
from mock_engines.meeting_log import abort_named, add_named, call_named, start_named

ROWS_MAX = 8
"""Different rows that a report shows."""
NAMED_MAX = 3
"""Messages of a cell that are named, the last ones."""
_NUMBERED = re.compile(r"(\d+) (.*)")
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message in the log of a rank. ``record``: of its arrival, where that is certain."""

    words: str
    record: Record | None

    def __str__(self) -> str:
        kind, _, rest = self.words.partition(" ")
        # Ids of requests may be long, and of calls say nothing; waves and methods do.
        shown = {"UTILITY": rest.partition(" ")[2], "START_DP_WAVE": f"{kind} {rest}"}
        name = shown.get(kind, kind)
        return name if self.record is None else f"{name} #{self.record.seq}"


@dataclass(frozen=True, slots=True)
class Row:
    """One rank: operations by kind, and messages.

    Attributes:
        did: kind of operation → how often it was entered.
        waits: the operation in which it is now; ``""``: none.
        took: messages that it took; ``untaken``: those that lie in its mailbox.
        dropped: how many messages it took before these.
    """

    rank: int
    did: dict[str, int]
    waits: str
    took: tuple[Arrived, ...]
    untaken: tuple[Arrived, ...]
    dropped: int = 0

    def cells(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """All but the rank, as text."""
        numbers = (str(self.did[kind]) if kind in self.did else NOTHING for kind in kinds)
        return (
            *numbers,
            self.waits or NOTHING,
            _some(self.took, self.dropped),
            _some(self.untaken),
        )


def untaken(event: RanksStuck | RanksSpin, rank: int) -> tuple[str, ...]:
    """What lies in the mailbox of a rank, a word or two for each; nothing where it is not told."""
    for each, _, waits in event.log:
        if each == rank:
            return tuple(word for entry in waits for word in _each(entry))
    return ()


def dropped(event: RanksStuck | RanksSpin, rank: int) -> int:
    """How many messages that a rank took its log no longer has."""
    return dict(event.dropped).get(rank, 0)


def rows_of(event: RanksStuck | RanksSpin, wakes: WakeBook) -> list[Row]:
    """The log of an event by rank."""
    return [_row(event, wakes, rank) for rank, *_ in event.log]


def table_of(rows: Sequence[Row], event: RanksStuck | RanksSpin, group: GroupBook) -> list[str]:
    """The rows below a head; ranks at which all is alike share one."""
    if not rows:
        return []
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.did))
    alike: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        alike.setdefault(row.cells(kinds), []).append(row.rank)
    head = ("engine", *kinds, "waits in", "took", "in its mailbox")
    body = [(_ranks(ranks), *cells) for cells, ranks in alike.items()]
    shown = [head, *body[:ROWS_MAX]]
    widths = [max(len(line[place]) for line in shown) for place in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in shown
    ]
    if len(body) > ROWS_MAX:
        lines.append(f"… and {len(body) - ROWS_MAX} more rows")
    return [_since(event, group), *(f"  {line}" for line in lines)]


def _since(event: RanksStuck | RanksSpin, group: GroupBook) -> str:
    if not event.met:
        return "operations of each engine since it began:"
    met = group.exchange
    known = met is not None and event.met == f"exchange {getattr(met.event, 'number', 0)}"
    at = f" (#{met.seq})" if known and met is not None else ""
    again = ", again and again" if isinstance(event, RanksSpin) else ""
    return f"operations of each engine since all met in {event.met}{at}{again}:"


def _row(event: RanksStuck | RanksSpin, wakes: WakeBook, rank: int) -> Row:
    ((did, lies),) = [(did, lies) for each, did, lies in event.log if each == rank]
    words = [word for entry in did for word in _each(entry)]
    took = [word.removeprefix("took ") for word in words if word.startswith("took ")]
    left = [word for entry in lies for word in _each(entry)]
    counts = dict(Counter(word for word in words if not word.startswith("took ")))
    arrived = _arrivals([*took, *left], wakes, rank)
    waits, gone = _waits(event, rank), dropped(event, rank)
    return Row(rank, counts, waits, arrived[: len(took)], arrived[len(took) :], gone)


def _waits(event: RanksStuck | RanksSpin, rank: int) -> str:
    if isinstance(event, RanksSpin):
        return ""
    elsewhere = {each: kind for each, _, kind in event.elsewhere}
    return dict(event.entered).get(rank) or elsewhere.get(rank, "")


def _each(entry: str) -> list[str]:
    """One entry of a log, as often as it stands for."""
    found = _NUMBERED.fullmatch(entry)
    return [entry] if found is None else [found[2]] * int(found[1])


def _arrivals(words: Sequence[str], wakes: WakeBook, rank: int) -> tuple[Arrived, ...]:
    """Each message with its arrival; one of several that are alike only if all of them are here."""
    mine = wakes.of(rank)
    came: dict[str, list[Record]] = {}
    for record in sorted((*mine.adds, *mine.aborts, *mine.calls, *mine.seen), key=_seq):
        came.setdefault(_words(record.event), []).append(record)
    here = Counter(words)
    nexts = {word: iter(known) for word, known in came.items() if len(known) == here[word]}
    return tuple(Arrived(word, next(nexts[word]) if word in nexts else None) for word in words)


def _seq(record: Record) -> int:
    return record.seq


def _words(event: object) -> str:
    """As the log of a rank has it."""
    match event:
        case AddSeen():
            return add_named(event.request_id)
        case AbortSeen():
            return abort_named(event.request_ids)
        case UtilitySeen():
            return call_named(event.call_id, event.method)
        case _:
            assert isinstance(event, StartWaveSeen), "no other message is looked for"
            return start_named(event.wave)


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:ROWS_MAX]))
    return f"{shown} …" if len(ranks) > ROWS_MAX else shown


def _some(found: Sequence[Arrived], before: int = 0) -> str:
    """Messages of a cell. ``before``: how many there were that nobody knows by name."""
    shown = ", ".join(str(each) for each in found[-NAMED_MAX:])
    more = max(0, len(found) - NAMED_MAX) + before
    unknown = f" ({before} of them not kept)" if before else ""
    return (f"{more} more{unknown}, {shown}" if more else shown) or NOTHING
