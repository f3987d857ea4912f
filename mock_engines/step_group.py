"""Ranks that step together: where they meet, and what holds them up. The asyncio side of it.

``Collectives`` decides who has come; here ranks wait for it, and here it is found out that a
meeting cannot come to its end. Two sorts of that are told apart:

- *for good*: whatever message may still arrive, the missing ranks do not come. They wait in a
  meeting that needs those who are here, came to another operation, or are dead. Told at once.
- a missing rank sits idle, and a message could wake it. Whether one is under way only a fence can
  say; told there.

Ranks may also step without end although nobody has work, as while only some were told to pause.
Two exchanges of that sort in a row, with nothing arriving between them, show that it goes on for
ever; then they wait for something to arrive, since more dummy steps would change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from mock_engines import events
from mock_engines.activity import Activity
from mock_engines.lockstep.collectives import Change, Collectives, Group, Stuck
from mock_engines.lockstep.effects import Enter, Input
from mock_engines.lockstep.rank import Rank
from mock_engines.meeting_log import MeetingLog

QUIET_EXCHANGES = 2
"""Exchanges without work, and without an end of the wave, after which nothing can change."""


class Member(Protocol):
    """One rank, as its group sees it."""

    @property
    def rank(self) -> Rank:
        """Its state."""

    @property
    def activity(self) -> Activity:
        """Told when a meeting is over."""

    def describe(self) -> str:
        """What it is at, in a few words."""

    def mailbox(self) -> tuple[str, ...]:
        """What has arrived and is not taken yet, a word or two for each."""


class StepGroup:
    """The ranks of one data-parallel group.

    Args:
        ranks: all that belong to it, whether they have joined or not.
        collectives: the rules by which they meet.
        observer: told of exchanges, and of ranks that are stuck.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        observer: events.Observer = events.ignore,
        collectives: type[Collectives] = Collectives,
    ) -> None:
        self.collectives = collectives(ranks)
        self._observer = observer
        self._members: dict[int, Member] = {}
        self._dead: dict[int, None] = {}
        self._results: dict[int, Any] = {}
        self._exchanges = 0
        self._quiet = 0
        self._log = {rank: MeetingLog() for rank in self.collectives.everybody}
        self._before: dict[int, MeetingLog] = {}
        self._met = self._met_before = ""
        self._told: dict[tuple[Group, int, tuple[int, ...]], None] = {}
        self._coming: dict[int, None] = {}

    # --- who belongs to it ------------------------------------------------------------------

    def attend(self, member: Member) -> None:
        """A rank comes, or comes back as a new process that knows of no meeting."""
        rank = member.rank.rank
        if rank in self._members:
            self._settle(self.collectives.leave(rank))
        if rank not in self.collectives.members and rank not in self._coming:
            self.collectives.join(rank)
        self._dead.pop(rank, None)
        self._results.pop(rank, None)
        self._members[rank] = member
        self._log[rank] = MeetingLog()
        self.stir()

    def died(self, rank: int) -> None:
        """A rank is dead. Its peers go on needing it: nobody takes it out of their group."""
        self._dead[rank] = None
        self._tell_what_is_stuck(for_good_only=True)

    def expect(self, rank: int) -> None:
        """A rank is started that belongs to the group only from a switch on."""
        self._coming[rank] = None

    def left(self, rank: int) -> None:
        """A rank ended because the group shrank without it."""
        self._members.pop(rank, None)
        self._dead.pop(rank, None)

    def let_go(self) -> None:
        """Forget the members: they refer to this. All must have been stopped."""
        self._members.clear()

    # --- meeting ----------------------------------------------------------------------------

    async def meet(self, member: Member, effect: Enter) -> Any:
        """Enter an operation, and return with what all of its ranks get."""
        rank, kind, collectives = member.rank.rank, effect.kind, self.collectives
        before = collectives.members
        if effect.group == "switch":
            collectives.change_to(member.rank.elastic.size)
        results = collectives.enter(rank, effect.group, kind, effect.value)
        self._log[rank].enter(effect)
        if results:
            if kind == "sync":
                self._exchanged(rank, results[rank])
            if effect.group != "device":
                self._all_met(kind)
            if effect.group == "switch":
                self._switched(rank, before, results[rank])
            self._settle(results)
        if self._dead or collectives.crossed:
            self._tell_what_is_stuck(for_good_only=True)
        if rank not in self._results:  # the last one to come need not wait
            await member.activity.until(partial(self._results.__contains__, rank))
        result = self._results.pop(rank)
        if kind == "sync" and self.spinning:
            await member.activity.until(lambda: not self.spinning)
        return result

    def took(self, rank: int, message: Input) -> None:
        """A rank took a message from its mailbox."""
        self._log[rank].take(message)

    def stir(self) -> None:
        """Something arrived at a rank, so that the next steps may differ from the last ones."""
        self._quiet = 0
        self._changed()

    @property
    def spinning(self) -> bool:
        """Whether all run dummy steps that nothing but a message can end."""
        return self._quiet >= QUIET_EXCHANGES

    def _settle(self, results: Mapping[int, Any]) -> None:
        if results:
            self._results.update(results)
            self._changed()

    def _changed(self) -> None:
        for member in self._members.values():
            member.activity.changed()

    def _exchanged(self, last: int, result: tuple[bool, bool]) -> None:
        goes_on, _consensus = result
        self._exchanges += 1
        states = [
            self._members[rank].rank for rank in self.collectives.members if rank in self._members
        ]
        unfinished = tuple(r.rank for r in states if r.scheduler.unfinished > 0)
        self._quiet = self._quiet + 1 if goes_on and not unfinished else 0
        self._observer(
            events.ExchangeHeld(
                engine=last,
                number=self._exchanges,
                waves=tuple((r.rank, r.wave, r.step_count) for r in states),
                unfinished=unfinished,
                pausing=tuple(r.rank for r in states if r.pending_pause),
                goes_on=goes_on,
                claimed=self.collectives.claimed,
            )
        )

    def _all_met(self, kind: str) -> None:
        """What is told of ranks that are stuck begins here."""
        self._met_before = self._met
        self._met = f"exchange {self._exchanges}" if kind == "sync" else kind
        self._before, self._log = self._log, {rank: MeetingLog() for rank in self._log}

    def _switched(self, last: int, before: tuple[int, ...], agreed: Change) -> None:
        ranks = self.collectives.members
        for rank in ranks:
            self._coming.pop(rank, None)
        self._observer(
            events.GroupSwitched(
                engine=last,
                before=before,
                ranks=ranks,
                running=agreed.running,
                wave=agreed.wave,
                step=agreed.step,
            )
        )

    # --- what holds them up -----------------------------------------------------------------

    def states(self) -> tuple[str, ...]:
        """What each rank is at, lowest first."""
        return tuple(self._state(rank) for rank in self.collectives.everybody)

    def _state(self, rank: int) -> str:
        if rank in self._dead:
            return f"engine {rank}: dead"
        if rank not in self._members:
            return f"engine {rank}: has not joined"
        return f"engine {rank}: {self._members[rank].describe()}"

    def _told_by(
        self, logs: Mapping[int, MeetingLog]
    ) -> tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]:
        """What each rank did, by these logs, and what it has not taken, lowest first."""
        return tuple(
            (rank, logs[rank].did() if rank in logs else (), self._members[rank].mailbox())
            for rank in self.collectives.everybody
            if rank in self._members
        )

    def _dropped(self, logs: Mapping[int, MeetingLog]) -> tuple[tuple[int, int], ...]:
        """How many messages of each rank these logs no longer have, where it is any."""
        return tuple((rank, log.dropped) for rank, log in sorted(logs.items()) if log.dropped)

    def at_rest(self) -> Iterator[events.MockEvent]:
        """Say what is stuck or spins, now that no rank moves. At a fence."""
        yield from self._stuck(for_good_only=False)
        if self.spinning:
            ranks = self.collectives.members
            pausing = tuple(
                rank
                for rank in ranks
                if rank in self._members and self._members[rank].rank.pending_pause
            )
            # All have just met; what they do again and again is what they did before that.
            yield events.RanksSpin(
                ranks[0],
                pausing,
                self.states(),
                log=self._told_by(self._before),
                met=self._met_before,
                dropped=self._dropped(self._before),
            )

    def _tell_what_is_stuck(self, *, for_good_only: bool) -> None:
        for event in self._stuck(for_good_only=for_good_only):
            self._observer(event)

    def _stuck(self, *, for_good_only: bool) -> Iterator[events.RanksStuck]:
        stuck = self.collectives.stuck()
        hopeful = self._hopeful(stuck)
        for each in stuck:
            ranks = tuple(entered.rank for entered in each.entered)
            for_good = each.group not in hopeful
            key = (each.group, each.entered[0].number, ranks)
            if for_good_only and (not for_good or key in self._told):
                continue
            self._told[key] = None
            yield events.RanksStuck(
                engine=ranks[0],
                group=each.group,
                entered=tuple((entered.rank, entered.kind) for entered in each.entered),
                missing=each.missing,
                states=self.states(),
                for_good=for_good,
                elsewhere=tuple(
                    (entered.rank, entered.group, entered.kind)
                    for other in stuck
                    for entered in other.entered
                    if entered.rank in each.missing
                ),
                log=self._told_by(self._log),
                met=self._met,
                dropped=self._dropped(self._log),
            )

    def _hopeful(self, stuck: Sequence[Stuck]) -> set[Group]:
        """Groups whose meeting can still come to its end, if the right message arrives."""
        waiting = {entered.rank for each in stuck for entered in each.entered}
        can_move = {
            rank
            for rank in self.collectives.everybody
            if rank not in waiting and rank not in self._dead
        }
        hopeful: set[Group] = set()
        found = True
        while found:
            found = False
            for each in stuck:
                if each.group in hopeful or each.mismatch or not can_move.issuperset(each.missing):
                    continue
                hopeful.add(each.group)
                can_move |= {entered.rank for entered in each.entered}
                found = True
        return hopeful
