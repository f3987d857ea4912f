"""Tells why ranks step without end though nobody has work, from the trace. Not an invariant."""

from __future__ import annotations

from collections.abc import Sequence

from harness.invariants._deadlock_calls import CallTrail, of_op
from harness.invariants._deadlock_wakes import Reason
from harness.invariants._fanouts import FanOutBook
from harness.invariants._lockstep import PAUSE_METHODS, GroupBook, named
from harness.invariants._wakes import WakeBook
from harness.trace.events import Record
from mock_engines.events import ExchangeHeld, RanksSpin


class SpinTrail:
    """Reads the books of one run.

    Args:
        group: states of the ranks.
        wakes: calls by rank.
        fans: which calls belong together.
        calls: what became of one engine's part of a call.
    """

    def __init__(
        self, group: GroupBook, wakes: WakeBook, fans: FanOutBook, calls: CallTrail
    ) -> None:
        self._group = group
        self._wakes = wakes
        self._fans = fans
        self._calls = calls

    def why(self, spin: RanksSpin, ranks: Sequence[int]) -> Reason:
        """Say who keeps whom from resting, and by which message."""
        others = [rank for rank in ranks if rank not in spin.pausing]
        if spin.pausing and others:
            return self._half_told(spin.pausing, others)
        return self._no_end()

    def _half_told(self, told: Sequence[int], others: Sequence[int]) -> Reason:
        """Some wait until all were told to pause; the others were not, or have agreed before."""
        first, other = told[0], others[0]
        call = self._calls.unanswered(first, PAUSE_METHODS)
        moved = self._group.moved.get(first)
        short = f"{named(told)} told to pause, {named(others)} not"
        would = f"{named(others)} told to pause, too, and an exchange in which all say so"
        asks = () if moved is None else (moved,)
        rule = (
            "ranks go on stepping until an exchange in which all say that they were told to pause;"
            f" in the last one {named(told)} alone did"
        )
        if call is None:
            return Reason(short, would, (rule,), asks)
        method = getattr(call.event, "method", "")
        fan = self._fans.by_call.get(getattr(call.event, "call_id", -1))
        of = f"{method}{of_op(fan)}"
        state, agreed = self._group.states.get(other), self._group.consensus
        if agreed is not None and state is not None and state.ignores_starts:
            assert isinstance(agreed.event, ExchangeHeld)
            short = (
                f"engine {first} was told to pause again after all had agreed on a pause, and"
                f" {named(others)} had been told before"
            )
            lines = (
                f"all agreed on a pause in exchange {agreed.event.number} (#{agreed.seq})",
                self._before(other, method, agreed),
                f"engine {first} took {of} only after that{_at(moved)}, and asks all to agree again",
                f"{named(others)}: paused by the first agreement, nothing left to agree on",
                rule,
            )
            return Reason(short, would, lines, (agreed, call, *asks))
        _, way, witness = self._calls.part(other, method, fan)
        took = f"engine {first} took {of}{_at(moved)}, and steps until all were told to pause"
        return Reason(short, would, (took, *way, rule), (call, *asks, *witness))

    def _before(self, rank: int, method: str, agreed: Record) -> str:
        """How many calls of that kind a rank had got before all agreed."""
        calls = [
            record
            for record in self._wakes.of(rank).calls
            if getattr(record.event, "method", "") == method and record.seq < agreed.seq
        ]
        where = ", ".join(f"#{record.seq}" for record in calls)
        return f"engine {rank} had got {len(calls)} × {method} by then ({where})"

    def _no_end(self) -> Reason:
        short, would = (
            "nobody has work, and no exchange says so",
            "an exchange that ends the wave, as nobody has work",
        )
        met = self._group.exchange
        if met is None or not isinstance(met.event, ExchangeHeld) or not met.event.claimed:
            return Reason(short, would)
        says = list(met.event.claimed)
        claims = f"{named(says)} {'says' if len(says) == 1 else 'say'} that there is work"
        line = f"{claims} in exchange {met.event.number} (#{met.seq}), and {_has(says)} no request"
        return Reason(f"{short}: {claims}", would, (line,), (met,))


def _at(record: Record | None) -> str:
    return "" if record is None else f" (#{record.seq})"


def _has(ranks: Sequence[int]) -> str:
    return "has" if len(ranks) == 1 else "have"
