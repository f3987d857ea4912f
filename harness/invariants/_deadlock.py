"""Tells why a rank does not come to a meeting, from the trace. Not an invariant.

A rank that is missing is gone, waits in another meeting, or sits idle. For one that waits in
another, and for one that is idle, the question is which message would have brought it, and where
that went: the way is followed from the rank back to whoever should have sent it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from client.protocol.profiles import profile_for
from client.protocol.shown import name_shown
from harness.invariants._deadlock_calls import NOT_PAUSED, CallTrail, of_op
from harness.invariants._deadlock_table import rows_of, table_of, untaken
from harness.invariants._deadlock_wakes import Reason, Split, WakeTrail
from harness.invariants._fanouts import FanOutBook
from harness.invariants._lockstep import (
    PAUSE_METHODS,
    RESUME_METHODS,
    GroupBook,
    engine_release,
    named,
)
from harness.invariants._spinning import SpinTrail
from harness.invariants._wakes import WakeBook
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import (
    ExchangeHeld,
    RanksSpin,
    RanksStuck,
    UtilitySeen,
)
from mock_engines.meeting_log import start_named

_CITED = re.compile(r"#(\d{1,18})\b", re.ASCII)
STATES_MAX = 8
"""Different states that a report shows."""
OF_CALLS = {
    "resume": RESUME_METHODS,
    "barrier": ("barrier",),
    "collective_rpc": ("collective_rpc",),
}
"""Meetings that a call brings ranks to → its methods; into the others they come by stepping."""


class Detective:
    """Reads the books of one run.

    Args:
        group: states of the ranks, and who hangs.
        wakes: wake-ups and calls by rank.
        fans: which calls belong together.
        split: who wakes the peers of a rank that gets a request of its own wave.
    """

    def __init__(
        self, group: GroupBook, wakes: WakeBook, fans: FanOutBook, *, split: Split
    ) -> None:
        self._group = group
        self._wakes = wakes
        self._fans = fans
        self._calls = CallTrail(group, wakes)
        self._trail = WakeTrail(group, wakes, fans, self._calls, split)
        self._spins = SpinTrail(group, wakes, fans, self._calls)

    def why(self, rank: int, stuck: RanksStuck) -> Reason:
        """Say why ``rank`` does not come to where others wait for it."""
        gone = self._gone(rank)
        if gone is not None:
            return gone
        kind = stuck.entered[0][1]
        elsewhere = self._elsewhere(rank, stuck)
        if elsewhere is not None:
            return self._crossed(rank, stuck, elsewhere)
        if methods := OF_CALLS.get(kind):
            return self._call(rank, stuck.entered[0][0], methods)
        return self._pause(rank, stuck) or self._trail.why(rank, stuck)

    def table(self, event: RanksStuck | RanksSpin) -> tuple[list[str], list[Record]]:
        """What each rank did since all met last, in lines, and the messages that lie untaken."""
        rows = rows_of(event, self._wakes)
        lying = [each.record for row in rows for each in row.untaken if each.record is not None]
        return table_of(rows, event, self._group), lying

    def spins(self, spin: RanksSpin, ranks: Sequence[int]) -> Reason:
        """Say why ``ranks`` step without end though nobody has work."""
        return self._spins.why(spin, ranks)

    # --- it cannot come ---------------------------------------------------------------------

    def _gone(self, rank: int) -> Reason | None:
        """It was shut down; one that a script took away is nobody's fault, and never asked for."""
        died = self._group.dead.get(rank)
        if died is None:
            return None
        told = self._group.moved[rank]
        return Reason(
            f"engine {rank} was shut down and is gone (#{died.seq})",
            f"engine {rank} goes on until its peers need it no more",
            (f"engine {rank} was told to shut down (#{told.seq}), and left its peers to step",),
            (told, died),
        )

    # --- it waits elsewhere -----------------------------------------------------------------

    def _elsewhere(self, rank: int, stuck: RanksStuck) -> tuple[str, str] | None:
        """Group and operation in which it waits."""
        for each, group, kind in stuck.elsewhere:
            if each == rank:
                return group, kind
        kinds = dict(stuck.entered)
        return (stuck.group, kinds[rank]) if rank in kinds else None

    def _crossed(self, rank: int, stuck: RanksStuck, elsewhere: tuple[str, str]) -> Reason:
        """It waits in turn for those who wait for it; a call may have brought one side there."""
        group, kind = elsewhere
        here = [each for each, _ in stuck.entered if each != rank]
        short = f"engine {rank} waits in {group} {kind}"
        would = "all ranks enter the same operations in the same order"
        sides = [
            (their, caller, late)
            for their, caller, late in (
                (kind, rank, here[0] if here else rank),
                (stuck.entered[0][1], stuck.entered[0][0], rank),
            )
            if their in OF_CALLS and caller != late
        ]
        for their, caller, late in sides:
            found = self._call(late, caller, OF_CALLS[their])
            lies = untaken(stuck, caller) if stuck.log else None
            lines, witness = self._meanwhile(caller, late, their, lies)
            would = f"{named(sorted({caller, late}))} enter {their} together, or step together"
            return Reason(
                f"{short}; {found.short}", would, (*found.lines, *lines), (*found.witness, *witness)
            )
        other = here[0] if here else rank
        lines, witness = self._apart(rank, kind, other, dict(stuck.entered).get(other, ""))
        return Reason(short, would, lines, witness)

    def _meanwhile(
        self, caller: int, late: int, their: str, lies: Sequence[str] | None
    ) -> tuple[tuple[str, ...], tuple[Record, ...]]:
        """What the one that a call brought there has missed, and the other one waits for.

        ``lies``: what has arrived at the former, and is not taken; ``None``: that is not told.
        """
        lines: list[str] = []
        witness: list[Record] = []
        began, by = self._trail.began(late)
        if began is not None and self._group.states[late].running:
            lines.append(f"engine {late} began to run at #{began.seq}{by}")
            witness.append(began)
        mine = self._calls.unanswered(caller, OF_CALLS[their])
        if mine is not None and isinstance(mine.event, UtilitySeen):
            lines.append(self._when(caller, mine, mine.event))
            for record in self._wakes.of(caller).seen:
                told = lies is None or start_named(_wave(record)) in lies
                if record.seq > mine.seq and told:
                    fate = "waits" if lies is None else "lies untaken in its mailbox"
                    lines.append(
                        f"START_DP_WAVE reached engine {caller} after it (#{record.seq}), and {fate}"
                    )
                    witness.append(record)
                    break
        for each in sorted({caller, late}):
            pause = self._calls.unanswered(each, PAUSE_METHODS)
            said = (
                mine is not None and each == caller and pause is not None and pause.seq < mine.seq
            )
            if pause is not None and not said and isinstance(pause.event, UtilitySeen):
                fan = self._fans.by_call.get(pause.event.call_id)
                what = f"{pause.event.method}{of_op(fan)}"
                lines.append(f"engine {each} has not answered {what} (#{pause.seq})")
                witness.append(pause)
        return tuple(lines), tuple(witness)

    def _when(self, rank: int, record: Record, call: UtilitySeen) -> str:
        """What the rank was at when the call came that it waits in."""
        came = f"when {call.method} came (#{record.seq})"
        pause = self._calls.unanswered(rank, PAUSE_METHODS)
        if pause is not None and pause.seq < record.seq and isinstance(pause.event, UtilitySeen):
            what = f"{pause.event.method}{of_op(self._fans.by_call.get(pause.event.call_id))}"
            return f"engine {rank} had not answered {what} (#{pause.seq}) yet {came}"
        state = self._calls.state_at(call.call_id)
        again = ": there was nothing to resume" if state == NOT_PAUSED else ""
        again = again if call.method in RESUME_METHODS else ""
        return f"engine {rank} was {state} {came}{again}"

    def _apart(
        self, rank: int, kind: str, other: int, their: str
    ) -> tuple[tuple[str, ...], tuple[Record, ...]]:
        """Both step, and one of them has left something out since they met last."""
        lines = [
            f"engine {rank} came to {kind} and engine {other} to {their}: since they met last, one "
            "has left out what the other waits in"
        ]
        witness = []
        for each in (rank, other):
            began, by = self._trail.began(each)
            if began is not None:
                lines.append(f"engine {each} began to run at #{began.seq}{by}")
                witness.append(began)
        if (met := self._group.exchange) is not None and isinstance(met.event, ExchangeHeld):
            lines.append(f"all met last in exchange {met.event.number} (#{met.seq})")
            witness.append(met)
        return tuple(lines), tuple(witness)

    # --- a call that only some got ----------------------------------------------------------

    def _call(self, rank: int, caller: int, methods: Sequence[str]) -> Reason:
        """What became of the call at ``rank`` that brought ``caller`` where it waits."""
        mine = self._calls.unanswered(caller, methods)
        if mine is None:
            text = f"nothing brought engine {rank} there"
            return Reason(text, f"a call that engine {rank} enters it for")
        assert isinstance(mine.event, UtilitySeen)
        method = mine.event.method
        fan = self._fans.by_call.get(mine.event.call_id)
        would = f"engine {rank} takes {method}, too, and enters"
        lines = [f"{method}{of_op(fan)} reached engine {caller} (#{mine.seq}), which entered"]
        short, line, witness = self._calls.part(rank, method, fan)
        return Reason(short, would, (*lines, *line), (mine, *witness))

    # --- a pause that only some got ---------------------------------------------------------

    def _pause(self, rank: int, stuck: RanksStuck) -> Reason | None:
        """The others step because they were told to pause, and this one was not."""
        states = self._group.states
        told = [each for each, _ in stuck.entered if each in states and states[each].pending_pause]
        if not told or states[rank].pending_pause:
            return None
        for record in reversed(self._wakes.of(told[0]).calls):
            event = record.event
            assert isinstance(event, UtilitySeen)
            if not event.method.startswith(("pause", "sleep")):
                continue
            fan = self._fans.by_call.get(event.call_id)
            short, lines, witness = self._calls.part(rank, event.method, fan)
            method = name_shown(event.method)
            first = f"{method}{of_op(fan)} reached engine {told[0]} (#{record.seq}), which runs"
            would = f"engine {rank} takes {method}, too, or START_DP_WAVE"
            return Reason(short, would, (first, *lines), (record, *witness))
        return None


def _wave(record: Record) -> int:
    return int(getattr(record.event, "wave", -1))


def detective(context: RunContext, *, white: bool) -> Detective:
    """One on the books of a run; ``white``: what frontend and coordinator decide is seen."""
    engine, frontend = context.once(_duties)
    shelf = context.shelf
    return Detective(
        shelf.book(GroupBook, context),
        shelf.book(WakeBook),
        shelf.book(FanOutBook, context),
        split=Split(
            engine=engine,
            frontend=frontend,
            seen=white,
            releases=(str(engine_release(context)), str(context.release)),
        ),
    )


def _duties(context: RunContext) -> tuple[bool, bool]:
    """Whether engines, and whether the frontend, see to it that peers wake up."""
    return (
        profile_for(str(engine_release(context))).engine_starts_current_wave,
        profile_for(str(context.release)).frontend_starts_waves,
    )


def states_of(states: tuple[str, ...]) -> list[str]:
    """One line for all engines that are at the same."""
    alike: dict[str, list[int]] = {}
    for state in states:
        engine, _, text = state.partition(": ")
        alike.setdefault(text, []).append(int(engine.removeprefix("engine ")))
    lines = [f"{named(ranks)}: {text}" for text, ranks in alike.items()]
    if len(lines) <= STATES_MAX:
        return lines
    return [*lines[:STATES_MAX], f"… and {len(lines) - STATES_MAX} more states"]


def cited(reasons: list[Reason], before: Record) -> list[int]:
    """Numbers of the events that reasons name, so that a report shows what it tells of.

    A text from the wire may look like a number of an event that is not there.
    """
    lines = (line for reason in reasons for line in reason.lines)
    numbers = (int(seq) for line in lines for seq in _CITED.findall(line))
    return [seq for seq in numbers if seq < before.seq]


def ways_of(reasons: list[Reason]) -> list[str]:
    """The way of the message that was missed, as the lines of a report."""
    lines = [line for reason in reasons for line in reason.lines]
    return ["because:", *(f"  {line}" for line in dict.fromkeys(lines))] if lines else []
