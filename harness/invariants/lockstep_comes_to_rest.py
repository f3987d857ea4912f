"""Invariant lockstep.comes-to-rest."""

from __future__ import annotations

from harness.invariants._deadlock import cited, detective, states_of, ways_of
from harness.invariants._lockstep import LockstepInvariant, named
from harness.invariants._run import event_types
from harness.invariants.base import Kind, RunContext
from harness.trace.events import Healed, Record
from mock_engines.events import ExchangeHeld, RanksSpin


class ComesToRest(LockstepInvariant):
    """Engines without work stop.

    Statement: By the final fence, once all is healed, no rank runs dummy steps that nothing but a
        message can end, and exchanges in which nobody has work do not go on after the last
        request ended.
    Reason: Ranks that step for nobody burn their GPUs for ever, and a pause that waits for the end
        of it never returns.
    Source: vLLM ``v1/engine/core.py`` (``_has_global_unfinished_reqs``, ``_pause_complete``);
        vllm#38009, #38761; protocol page, sections 13 and 14.
    Limits: Engines that step together only. Not judged where a rank died or stands still on
        purpose, or is stuck (another invariant's).
    """

    id = "lockstep.comes-to-rest"
    kind = Kind.EVENTUALLY
    handles = event_types((ExchangeHeld, RanksSpin, Healed))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._detective = detective(context, white=self.white)
        self._healed: Record | None = None
        self._in_vain: list[Record] = []

    def see(self, record: Record) -> None:
        """Count waves that end; keep the exchanges that let nobody stop though nobody works."""
        event = record.event
        if isinstance(event, Healed):
            self._healed = record
        elif isinstance(event, ExchangeHeld):
            if not event.goes_on:
                self.exercised += 1
            if event.goes_on and not event.unfinished:
                self._in_vain = [*self._in_vain[-1:], record]
            else:
                self._in_vain.clear()

    def at_rest(self) -> None:
        """Judge the last look, or that there was none."""
        group = self.group
        if group.spin is not None and isinstance(group.spin.event, RanksSpin):
            if not group.looked:
                self.unjudged = "the run ended before it could be seen whether ranks come to rest"
            elif not group.dead and not group.stalled:
                self._spins(group.spin, group.spin.event)
            return
        if not group.looked and self._healed is not None and len(self._in_vain) > 1:
            self.violate(
                "ranks go on stepping though nobody has work",
                expected=f"an exchange that ends the wave after event {self._in_vain[0].seq}",
                seen=f"another one that goes on at event {self._in_vain[-1].seq}, and no rest",
                witness=self._in_vain,
            )

    def _spins(self, record: Record, event: RanksSpin) -> None:
        ranks = list(self.context.ranks)
        reason = self._detective.spins(event, ranks)
        table, lying = self._detective.table(event)
        self.violate(
            f"{named(ranks)} run dummy steps without end: {reason.short}",
            expected=reason.would,
            seen="\n".join((*states_of(event.states), *table, *ways_of([reason]))),
            witness=(
                *lying,
                *reason.witness,
                *cited([reason], record),
                *self._in_vain[-1:],
                record,
            ),
        )
