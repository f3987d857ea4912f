"""Where ranks meet: an operation is over when every member has entered it. Pure.

There are two groups, as in a real deployment: *device* (the exchange inside each forward pass of a
mixture of experts, dummy or not) and *host* (the exchange of unfinished work, the barrier of a
resume). In a third one, *switch*, the ranks of the present and of the next group meet once, when
the size of a deployment changes. Within a group operations meet in order, not by name: whoever
enters another one than its peers is stuck with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

Group = Literal["device", "host", "switch"]


class Entered(msgspec.Struct, frozen=True):
    """What a rank has entered: ``number`` counts the operations of its group, from 1."""

    rank: int
    group: Group
    kind: str
    number: int
    value: Any = None


@dataclass(frozen=True, slots=True)
class Change:
    """What a rank brings to the meeting of old and new ranks, and what all take from it."""

    running: bool
    wave: int
    step: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """An operation that does not come to its end.

    Attributes:
        entered: who waits in it.
        missing: members that have not come.
        mismatch: not all entered the same kind of operation.
    """

    group: Group
    entered: tuple[Entered, ...]
    missing: tuple[int, ...]
    mismatch: bool


@dataclass(slots=True)
class _Meeting:
    number: int = 1
    present: dict[int, Entered] = field(default_factory=dict)
    kinds: dict[str, None] = field(default_factory=dict)


class Collectives:
    """All operations of one set of ranks.

    Attributes:
        claimed: ranks that said in the last exchange that they have work.
    """

    def __init__(self, ranks: Iterable[int]) -> None:
        self._members = dict.fromkeys(sorted(ranks))
        self._next: dict[int, None] = {}
        self.claimed: tuple[int, ...] = ()
        groups: tuple[Group, ...] = ("device", "host", "switch")
        self._meetings: dict[Group, _Meeting] = {group: _Meeting() for group in groups}

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks that take part, lowest first."""
        return tuple(self._members)

    @property
    def everybody(self) -> tuple[int, ...]:
        """Members of this group and, while a change is under way, of the next one."""
        return tuple(sorted({**self._members, **self._next}))

    def change_to(self, size: int) -> None:
        """The next group is ranks 0 to ``size`` - 1; who is in either meets in the switch."""
        if not self._next:
            self._next = dict.fromkeys(range(size))

    def enter(self, rank: int, group: Group, kind: str, value: Any = None) -> Mapping[int, Any]:
        """A rank enters an operation and waits.

        Returns what each rank gets, if this was the last one; else nothing.

        Raises:
            ValueError: it is no member, or is in an operation of this group already.
        """
        meeting = self._meetings[group]
        if rank not in self._of(group) or rank in meeting.present:
            msg = f"rank {rank} cannot enter {kind}: it is no member, or waits in {group} already"
            raise ValueError(msg)
        meeting.present[rank] = Entered(rank, group, kind, meeting.number, value)
        meeting.kinds[kind] = None
        return self._finish(group)

    def leave(self, rank: int) -> Mapping[int, Any]:
        """A rank is gone for good, and the others form the group anew.

        Returns what those get whose operation is complete without it, by group in turn.
        """
        self._members.pop(rank, None)
        results: dict[int, Any] = {}
        for group in self._meetings:
            meeting = self._meetings[group]
            meeting.present.pop(rank, None)
            meeting.kinds = dict.fromkeys(each.kind for each in meeting.present.values())
            results |= self._finish(group)
        return results

    def join(self, rank: int) -> None:
        """A rank comes; the next operation of each group needs it too."""
        self._members = dict.fromkeys(sorted((*self._members, rank)))

    def waits(self, rank: int) -> Entered | None:
        """The operation in which a rank waits."""
        for meeting in self._meetings.values():
            if rank in meeting.present:
                return meeting.present[rank]
        return None

    @property
    def crossed(self) -> bool:
        """Whether ranks wait in both groups, or in different operations of one.

        Only then can living ranks wait for each other for good. Cheap, for it is asked each time.
        """
        meetings = self._meetings
        device, host = meetings["device"].kinds, meetings["host"].kinds
        switch = meetings["switch"].kinds
        if switch:
            return bool(device or host) or len(switch) > 1
        return bool(device and host) or len(device) > 1 or len(host) > 1

    def stuck(self) -> tuple[Stuck, ...]:
        """Operations under way: who is in, and who is not."""
        return tuple(
            Stuck(
                group,
                tuple(meeting.present[rank] for rank in sorted(meeting.present)),
                tuple(rank for rank in self._of(group) if rank not in meeting.present),
                mismatch=len(meeting.kinds) > 1,
            )
            for group, meeting in self._meetings.items()
            if meeting.present
        )

    def _of(self, group: Group) -> Collection[int]:
        """Who belongs to the meetings of a group of operations."""
        return self.everybody if group == "switch" else self._members

    def _finish(self, group: Group) -> dict[int, Any]:
        meeting = self._meetings[group]
        if not meeting.present or len(meeting.present) < len(self._of(group)):
            return {}
        present = meeting.present
        if len(meeting.kinds) > 1:
            return {}
        kind = next(iter(present.values())).kind
        result = _combine(kind, [each.value for each in present.values()])
        if kind == "sync":
            self.claimed = tuple(sorted(rank for rank, each in present.items() if each.value[0]))
        meeting.present, meeting.kinds, meeting.number = {}, {}, meeting.number + 1
        if group == "switch":
            self._members, self._next = self._next, {}
        return dict.fromkeys(sorted(present), result)


def _combine(kind: str, values: list[Any]) -> Any:
    """What all get: sums for the exchange, whether any for a resume, the most of a change."""
    if isinstance(values[0], Change):
        return Change(
            any(value.running for value in values),
            max(value.wave for value in values),
            max(value.step for value in values),
        )
    if kind == "sync":
        unfinished = sum(value[0] for value in values)
        pausing = sum(value[1] for value in values)
        consensus = pausing == len(values)
        # Some pause and some do not yet: nobody may stop before all have been told.
        return (unfinished > 0 or (pausing > 0 and not consensus), consensus)
    return any(values) if kind == "resume" else None
