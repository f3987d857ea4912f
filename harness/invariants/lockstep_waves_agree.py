"""Invariant lockstep.waves-agree."""

from __future__ import annotations

from harness.invariants._lockstep import LockstepInvariant
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import EngineJoined, ExchangeHeld


class WavesAgree(LockstepInvariant):
    """Ranks that meet are in the same step of the same wave.

    Statement: In every exchange of unfinished work all ranks have the same wave and are in the
        same step of it.
    Reason: The exchange ends the wave for all. Who counts waves or steps apart takes a wake-up for
        a stale one, or comes to the next exchange a step too early, and its peers hang.
    Source: vLLM ``v1/engine/core.py`` (``_has_global_unfinished_reqs``, ``step_counter``,
        ``current_wave``); vllm#45223; protocol page, section 13.
    Limits: Engines that step together only. A rank that died and came back begins at wave 0; from
        then on nothing is judged.
    """

    id = "lockstep.waves-agree"
    handles = event_types((ExchangeHeld, EngineJoined))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._last: Record | None = None

    def see(self, record: Record) -> None:
        """Compare the ranks of an exchange."""
        event = record.event
        if not isinstance(event, ExchangeHeld) or self.group.returned:
            return
        self.exercised += 1
        before, self._last = self._last, record
        first, *others = event.waves
        if all(each[1:] == first[1:] for each in others):
            return
        places = {rank: f"wave {wave}, step {step}" for rank, wave, step in event.waves}
        self.violate(
            f"exchange {event.number} met ranks that are not in the same step",
            expected=f"all engines: {places[first[0]]}",
            seen="; ".join(f"engine {rank}: {place}" for rank, place in places.items()),
            witness=(record,) if before is None else (before, record),
        )
