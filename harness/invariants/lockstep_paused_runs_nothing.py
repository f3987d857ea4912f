"""Invariant lockstep.paused-runs-nothing."""

from __future__ import annotations

from packaging.version import Version

from harness.invariants._lockstep import UNPAUSED, LockstepInvariant, engine_release
from harness.invariants._run import event_types
from harness.invariants.base import RunContext
from harness.trace.events import Record
from mock_engines.events import AddSeen, OutputSent, RankMoved

FULLY_AWAKE_SINCE = Version("0.24")
"""Before, ``wake_up`` of a part of the memory let a rank run."""


class PausedRunsNothing(LockstepInvariant):
    """What is paused or asleep does not run.

    Statement: While a rank's scheduler is paused for all requests, or any of its memory sleeps, it
        sends no tokens; while it is paused for new ones, it sends none for a request that had
        none before; and a paused rank that does not run begins to only when it is told to pause
        anew.
    Reason: Weights are changed and memory is freed behind a pause. What runs meanwhile computes
        with half of the new weights, or on memory that is gone.
    Source: vLLM ``v1/engine/core.py`` (``PauseState``, ``sleep``), ``v1/core/sched/scheduler.py``;
        vllm#36594, #37024; protocol page, section 14.
    Limits: Engines that step together only. Requests that drain in mode *wait* had tokens before.
        Up to 0.23 a rank of which memory sleeps may run once it is told to wake up. Dummy steps
        show nothing on the wire; a rank that runs without need shows as one that began to.
    """

    id = "lockstep.paused-runs-nothing"
    handles = event_types((RankMoved, AddSeen, OutputSent))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._states: dict[int, tuple[RankMoved, Record]] = {}
        self._since: dict[int, Record] = {}
        self._started: dict[tuple[int, str], None] = {}
        self._half_awake = engine_release(context) < FULLY_AWAKE_SINCE

    def see(self, record: Record) -> None:
        """Keep states and what has begun; judge tokens."""
        event = record.event
        match event:
            case RankMoved():
                self._moved(record, event)
            case AddSeen():
                self._started.pop((event.engine, event.request_id), None)
            case _:
                assert isinstance(event, OutputSent)
                if event.tokens and event.engine in self._states:
                    self._tokens(record, event)

    def _moved(self, record: Record, event: RankMoved) -> None:
        known = self._states.get(event.engine)
        self._states[event.engine] = (event, record)
        before = None if known is None else known[0]
        if _restful(event) and (before is None or not _restful(before)):
            self.exercised += 1
            self._since[event.engine] = record
        if known is None or before is None:
            return
        begins = event.running and not before.running
        if begins and UNPAUSED not in {before.pause, event.pause} and not event.pending_pause:
            self.violate(
                f"engine {event.engine} began to run though it is paused",
                expected=f"engine {event.engine} stays idle until it is told to resume",
                seen=f"running at wave {event.wave} (event {record.seq})",
                witness=(self._since[event.engine], known[1], record),
            )

    def _tokens(self, record: Record, event: OutputSent) -> None:
        state, moved = self._states[event.engine]
        key = (event.engine, event.request_id)
        fresh = key not in self._started
        self._started[key] = None
        if state.asleep and not (self._half_awake and state.pause == UNPAUSED):
            why = f"asleep ({', '.join(state.asleep)})"
        elif state.pause == "all":
            why = "paused"
        elif state.pause == "new" and fresh:
            why = "paused for new requests"
        else:
            return
        self.violate(
            f"engine {event.engine} ran {event.request_id} while it was {why}",
            expected=f"no tokens of {event.request_id} from engine {event.engine}, {why}",
            seen=f"{len(event.tokens)} tokens at event {record.seq}",
            witness=(self._since.get(event.engine, moved), moved, record),
        )


def _restful(state: RankMoved) -> bool:
    return state.pause != UNPAUSED or bool(state.asleep)
