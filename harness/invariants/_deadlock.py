"""Tells why a rank does not come to a meeting, from the trace. Not an invariant.

A rank that is missing is gone, waits in another meeting, or sits idle. For one that waits in
another, and for one that is idle, the question is which message would have brought it, and where
that went: the way is followed from the rank back to whoever should have sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.invariants._deadlock_wakes import Reason, Split, WakeTrail
from harness.invariants._fanouts import FanOut, FanOutBook
from harness.invariants._lockstep import RESUME_METHODS, GroupBook
from harness.invariants._wakes import WakeBook
from harness.trace.events import Record
from mock_engines.events import (
    ExchangeHeld,
    RanksStuck,
    UtilityReplySent,
    UtilitySeen,
)

OF_CALLS = {
    "resume": RESUME_METHODS,
    "barrier": ("barrier",),
    "collective_rpc": ("collective_rpc",),
}
"""Meetings that a call brings ranks to → its methods; into the others they come by stepping."""


def named(ranks: Iterable[int]) -> str:
    """``engine 1``, or ``engines 1, 2``; the first eight."""
    each = list(ranks)
    text = ", ".join(str(rank) for rank in each[:8]) + (" …" if len(each) > 8 else "")
    return f"engine{'' if len(each) == 1 else 's'} {text}"


def wait_s(ranks: Sequence[int]) -> str:
    """``waits`` or ``wait``, as the number of ranks wants it."""
    return "waits" if len(ranks) == 1 else "wait"


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
        self._trail = WakeTrail(group, wakes, split)

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
        short = f"engine {rank} {wait_s([rank])} in {group} {kind} itself"
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
            return Reason(f"{short}; {found.short}", found.would, found.lines, found.witness)
        other = here[0] if here else rank
        lines, witness = self._apart(rank, kind, other, dict(stuck.entered).get(other, ""))
        return Reason(short, would, lines, witness)

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
        mine = self._unanswered(caller, methods)
        if mine is None:
            text = f"nothing brought engine {rank} there"
            return Reason(text, f"a call that engine {rank} enters it for")
        assert isinstance(mine.event, UtilitySeen)
        method = mine.event.method
        fan = self._fans.by_call.get(mine.event.call_id)
        would = f"engine {rank} takes {method}, too, and enters"
        lines = [f"{method}{_of(fan)} reached engine {caller} (#{mine.seq}), which entered"]
        short, line, witness = self._part(rank, method, fan)
        return Reason(short, would, (*lines, *line), (mine, *witness))

    def _unanswered(self, rank: int, methods: Sequence[str]) -> Record | None:
        for record in reversed(self._wakes.of(rank).calls):
            event = record.event
            assert isinstance(event, UtilitySeen)
            if event.method in methods and event.call_id not in self._wakes.replies:
                return record
        return None

    def _part(
        self, rank: int, method: str, fan: FanOut | None
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        """One engine's part of a fan-out: short, lines, witness."""
        call_id = None if fan is None else fan.call_at(rank)
        seen = None if fan is None or call_id is None else fan.seen.get(call_id)
        if call_id is None or seen is None:
            return self._not_arrived(rank, method, fan, call_id)
        reply = self._wakes.replies.get(call_id)
        if reply is None:
            return self._not_answered(rank, method, seen)
        assert isinstance(reply.event, UtilityReplySent)
        moved = self._wakes.then.get(call_id)
        witness = (seen, reply) if moved is None else (moved, seen, reply)
        if reply.event.failure is not None:
            short = f"engine {rank} refused {method} (#{reply.seq})"
            return short, (f"engine {rank} answered #{seen.seq}: {reply.event.failure}",), witness
        short = f"engine {rank} answered {method} without entering (#{reply.seq})"
        line = f"engine {rank} answered #{seen.seq} at once (#{reply.seq})"
        if moved is not None and getattr(moved.event, "running", False):
            line += f": it was running since #{moved.seq}, so it took the call for a repetition"
        return short, (line,), witness

    def _not_arrived(
        self, rank: int, method: str, fan: FanOut | None, call_id: int | None
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        registered = None if fan is None or call_id is None else fan.registered.get(call_id)
        sent = "" if registered is None else f", though the client sent it (#{registered.seq})"
        never = "never reached" if self._group.settled else "has not reached"
        short = f"{method} {never} engine {rank}"
        return short, (f"{short}{sent}",), ()

    def _not_answered(
        self, rank: int, method: str, seen: Record
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        state = self._group.states.get(rank)
        if not self._group.settled or (state is not None and (state.running or self._hangs(rank))):
            short = f"engine {rank} has not taken {method} (#{seen.seq})"
            return short, (f"{short}: it takes nothing while it waits",), (seen,)
        short = f"{method} reached engine {rank} (#{seen.seq}), and a rule kept it"
        return short, (f"{short} from its loop",), (seen,)

    def _hangs(self, rank: int) -> bool:
        """Whether it waits in some meeting."""
        told = [r.event for r in self._group.stuck if isinstance(r.event, RanksStuck)]
        return any(
            rank in dict(event.entered) or rank in [each for each, *_ in event.elsewhere]
            for event in told
        )

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
            short, lines, witness = self._part(rank, event.method, fan)
            first = f"{event.method}{_of(fan)} reached engine {told[0]} (#{record.seq}), which runs"
            would = f"engine {rank} takes {event.method}, too, or START_DP_WAVE"
            return Reason(short, would, (first, *lines), (record, *witness))
        return None


def _of(fan: FanOut | None) -> str:
    return "" if fan is None else f" of {fan.op!r}"
