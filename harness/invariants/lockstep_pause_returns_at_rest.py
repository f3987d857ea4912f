"""Invariant lockstep.pause-returns-at-rest."""

from __future__ import annotations

from packaging.version import Version

from harness.invariants._lockstep import (
    PAUSE_METHODS,
    UNPAUSED,
    LockstepInvariant,
    engine_release,
)
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import ExchangeHeld, UtilityApplied, UtilityReplySent, UtilitySeen

GENERATION_SINCE = Version("0.33")
"""Engines of older releases know no ``pause_generation``."""


class PauseReturnsAtRest(LockstepInvariant):
    """A pause is answered when no rank can step any more.

    Statement: Whenever a rank answers a pause or a sleep without a failure, an exchange since the
        call arrived had all ranks told to pause, the last exchange ended the wave, and the rank
        itself is idle, is paused, and ignores wake-ups.
    Reason: Whoever called changes weights or frees memory next. A rank that can still step then
        waits in a forward pass for peers that are in another collective.
    Source: vLLM ``v1/engine/core.py`` (``pause_scheduler``, ``_pause_complete``); vllm#36594,
        #37024, #39366; protocol page, section 14.
    Limits: Engines that step together only; answers of a rule's making are left out, and so are
        those of a rank that joined again.
    """

    id = "lockstep.pause-returns-at-rest"
    handles = event_types((UtilitySeen, UtilityApplied, UtilityReplySent))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        known = engine_release(context) >= GENERATION_SINCE
        self._methods = {m for m in PAUSE_METHODS if known or m != "pause_generation"}
        self._called: dict[int, Record] = {}
        self._applied: dict[int, Record] = {}

    def see(self, record: Record) -> None:
        """Note calls; judge replies."""
        event = record.event
        match event:
            case UtilitySeen() if event.method in self._methods:
                self._called[event.call_id] = record
            case UtilityApplied() if event.method in self._methods:
                self._applied[event.call_id] = record
            case UtilityReplySent() if event.method in self._methods:
                called = self._called.pop(event.call_id, None)
                applied = self._applied.pop(event.call_id, None)
                if called is not None and applied is not None and event.failure is None:
                    self._reply(record, event, called)
            case _:
                pass

    def _reply(self, record: Record, event: UtilityReplySent, called: Record) -> None:
        group, rank = self.group, event.engine
        state = group.states.get(rank)
        if state is None or group.returned:
            return
        self.exercised += 1
        wrong: list[str] = []
        agreed, last = group.consensus, group.exchange
        if agreed is None or agreed.seq < called.seq:
            wrong.append("not all ranks have agreed on the pause")
        if last is not None and isinstance(last.event, ExchangeHeld) and last.event.goes_on:
            wrong.append(f"the last exchange said that all go on (event {last.seq})")
        if state.running:
            wrong.append(f"it is running at wave {state.wave}")
        if state.pause == UNPAUSED or not state.ignores_starts:
            wrong.append("a wake-up would make it run")
        if not wrong:
            return
        self.violate(
            f"engine {rank} answered {event.method} before all were at rest",
            expected=f"{event.method} answered after an exchange in which all ranks pause and rest",
            seen="; ".join(wrong),
            witness=(called, group.moved[rank], *(() if last is None else (last,)), record),
        )
