"""Invariant lockstep.no-rank-waits-alone."""

from __future__ import annotations

from harness.invariants._deadlock import cited, detective, states_of, ways_of
from harness.invariants._lockstep import LockstepInvariant, named, wait_s
from harness.invariants._run import event_types
from harness.invariants.base import Kind, RunContext
from harness.trace.events import Record
from mock_engines.events import ExchangeHeld, RanksStuck

REASONS_MAX = 2
"""Missing ranks of which a report says why they do not come."""


class NoRankWaitsAlone(LockstepInvariant):
    """Whoever enters a collective is joined by all of its peers.

    Statement: No rank waits in a collective that another can no longer reach, and by the final
        fence, once all is healed, none waits for a rank to which no message is under way.
    Reason: Ranks that wait for each other never end a request and answer no call again; only a
        restart of the whole deployment helps.
    Source: vllm#36594, #37024, #38009, #38761, #39366, #54762, #55229; vLLM
        ``v1/engine/core.py`` (``DPEngineCoreProc``); protocol page, sections 11, 13 and 14.
    Limits: Engines that step together only (``waves: lockstep``). Not judged where the rank that
        is missing died by script, never joined, or stands still on purpose; one that was shut
        down while its peers needed it counts.
    """

    id = "lockstep.no-rank-waits-alone"
    kind = Kind.EVENTUALLY
    handles = event_types((ExchangeHeld, RanksStuck))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._detective = detective(context, white=self.white)

    def see(self, record: Record) -> None:
        """Count meetings; judge at once what nothing can help."""
        if isinstance(record.event, RanksStuck):
            if record.event.for_good and self._excuse(record.event) is None:
                self._violated(record, record.event)
        else:
            self.exercised += 1

    def at_rest(self) -> None:
        """Judge who still waits at the last look."""
        found = [(r, r.event) for r in self.group.stuck if isinstance(r.event, RanksStuck)]
        if not found:
            return
        self.exercised += 1
        if not self.group.looked:
            self.unjudged = (
                "ranks waited, and the run ended before it could be seen whether for good"
            )
            return
        excuses = [self._excuse(event) for _, event in found]
        if (excuse := next((each for each in excuses if each is not None), None)) is not None:
            self.unjudged = excuse
            return
        self._violated(*found[0])

    def _excuse(self, event: RanksStuck) -> str | None:
        """Why nobody can be blamed for those who wait; ``None`` if somebody can."""
        group, waiting = self.group, [rank for rank, _ in event.entered]
        for rank in event.missing:
            state = group.states.get(rank)
            if rank in group.dead and (state is None or not state.ending):
                gone = f"died (event {group.dead[rank].seq})"
            elif rank in group.stalled:
                gone = f"stands still (event {group.stalled[rank].seq})"
            elif state is None:
                gone = "has not joined"
            else:
                continue
            where = f"in {event.group} {event.entered[0][1]}"
            return f"{named(waiting)} {wait_s(waiting)} {where} for engine {rank}, which {gone}"
        return None

    def _cannot(self, rank: int, event: RanksStuck) -> bool:
        waits = [each for each, *_ in event.elsewhere]
        return rank in waits or rank in self.group.dead or rank in dict(event.entered)

    def _violated(self, record: Record, event: RanksStuck) -> None:
        kinds = dict.fromkeys(kind for _, kind in event.entered)
        waiting = [rank for rank, _ in event.entered]
        missing = event.missing or tuple(
            r for r, kind in event.entered if kind != event.entered[0][1]
        )
        # At once, others may only not have come yet; those that cannot are what it is about.
        cannot = [rank for rank in missing if self._cannot(rank, event)]
        blamed = (cannot or missing)[:REASONS_MAX]
        reasons = [self._detective.why(rank, event) for rank in blamed]
        table, lying = self._detective.table(event)
        where = f"{event.group} {' and '.join(kinds)}"
        others = f" for {named(missing)}" if event.missing else " and never meet"
        title = f"{named(waiting)} {wait_s(waiting)} in {where}{others}: {reasons[0].short}"
        self.violate(
            title,
            expected=f"all ranks come to {event.group} {event.entered[0][1]}: {reasons[0].would}",
            seen="\n".join((*states_of(event.states), *table, *ways_of(reasons))),
            witness=(
                *lying,
                *(r for reason in reasons for r in reason.witness),
                *cited(reasons, record),
                record,
            ),
        )
