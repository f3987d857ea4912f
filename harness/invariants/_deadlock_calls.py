"""Tells what became of a call at one rank, from the trace. Not an invariant."""

from __future__ import annotations

from collections.abc import Sequence

from client.protocol.shown import name_shown, quoted
from harness.invariants._deadlock_table import dropped, untaken
from harness.invariants._fanouts import FanOut
from harness.invariants._lockstep import UNPAUSED, GroupBook
from harness.invariants._wakes import WakeBook
from harness.trace.events import Record
from mock_engines.events import RanksStuck, UtilityReplySent, UtilitySeen
from mock_engines.meeting_log import call_named

NOT_PAUSED = "not paused"


def of_op(fan: FanOut | None) -> str:
    """``of 'p'`` with a space before it, where the op is known."""
    return "" if fan is None else f" of {fan.op!r}"


class CallTrail:
    """Reads the books of one run.

    Args:
        group: states of the ranks, and who hangs.
        wakes: calls and replies by rank.
    """

    def __init__(self, group: GroupBook, wakes: WakeBook) -> None:
        self._group = group
        self._wakes = wakes

    def unanswered(self, rank: int, methods: Sequence[str]) -> Record | None:
        """The last call of these methods that the rank got and has not answered."""
        for record in reversed(self._wakes.of(rank).calls):
            event = record.event
            assert isinstance(event, UtilitySeen)
            if event.method in methods and event.call_id not in self._wakes.replies:
                return record
        return None

    def state_at(self, call_id: int) -> str:
        """What a rank was at when a call arrived there, as to pauses."""
        state = self._wakes.state_at.get(call_id)
        if state is None:
            return "in an unknown state"
        if state.pending_pause:
            return "told to pause, and not all had agreed yet"
        return NOT_PAUSED if state.pause == UNPAUSED else "paused"

    def taken(self, rank: int, method: str, fan: FanOut | None) -> str:
        """Whether one engine has answered its part of a fan-out, in a sentence."""
        call_id = None if fan is None else fan.call_at(rank)
        reply = None if call_id is None else self._wakes.replies.get(call_id)
        if reply is None:
            return self.part(rank, method, fan)[0]
        return f"engine {rank} had answered it, too"

    def part(
        self, rank: int, method: str, fan: FanOut | None
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        """One engine's part of a fan-out: short, lines, witness."""
        method = name_shown(method)
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
            why = quoted(reply.event.failure)
            return short, (f"engine {rank} answered #{seen.seq}: {why}",), witness
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
        assert isinstance(seen.event, UtilitySeen)
        word = call_named(seen.event.call_id, seen.event.method)
        if self._tell(rank, taken=f"took {word}"):
            short = f"engine {rank} took {method} (#{seen.seq}), and has not answered it"
            return short, (short,), (seen,)
        if self._tell(rank, lies=word):
            short = f"engine {rank} has not taken {method} (#{seen.seq})"
            waits = "it lies in its mailbox, and the rank takes nothing while it waits"
            return short, (f"{short}: {waits}",), (seen,)
        if gone := self._dropped(rank):
            short = f"engine {rank} got {method} (#{seen.seq}), and has not answered it"
            unknown = f"of the messages that it took the first {gone} are not kept"
            line = f"{short}; whether it took it is not known: {unknown}"
            return short, (line,), (seen,)
        state = self._group.states.get(rank)
        if not self._group.settled or (state is not None and (state.running or self._hangs(rank))):
            short = f"engine {rank} has not taken {method} (#{seen.seq})"
            return short, (f"{short}: it takes nothing while it waits",), (seen,)
        short = f"{method} reached engine {rank} (#{seen.seq}), and a rule kept it"
        return short, (f"{short} from its loop",), (seen,)

    def _tell(self, rank: int, *, taken: str = "", lies: str = "") -> bool:
        """Whether a last look has such an entry of a rank."""
        told = [r.event for r in self._group.stuck if isinstance(r.event, RanksStuck)]
        return any(
            taken in did or lies in untaken(event, rank)
            for event in told
            for each, did, _ in event.log
            if each == rank
        )

    def _dropped(self, rank: int) -> int:
        """How many messages that it took nobody knows by name any more."""
        told = [r.event for r in self._group.stuck if isinstance(r.event, RanksStuck)]
        return max((dropped(event, rank) for event in told), default=0)

    def _hangs(self, rank: int) -> bool:
        """Whether it waits in some meeting."""
        told = [r.event for r in self._group.stuck if isinstance(r.event, RanksStuck)]
        return any(
            rank in dict(event.entered) or rank in [each for each, *_ in event.elsewhere]
            for event in told
        )
