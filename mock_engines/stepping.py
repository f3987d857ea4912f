"""A rank that steps with its peers, on asyncio: what its loop decides is done here.

What arrives is put into the rank's queue in the order of its arrival, as a real engine's input
thread does, and the loop takes it from there between two steps.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, assert_never

from client.protocol.ids import CallId, RequestId
from client.protocol.messages import EngineCoreOutput, FinishReason, UtilityCall
from client.protocol.profiles import Profile
from mock_engines import aio, events
from mock_engines.activity import Activity
from mock_engines.behaviours.model import Pace, Stream
from mock_engines.behaviours.stream import last_row
from mock_engines.engine import MockEngine
from mock_engines.handle import EngineSetup, Lockstep
from mock_engines.lockstep.effects import (
    AbortInput,
    AddInput,
    Block,
    CallInput,
    Changed,
    Counts,
    Effect,
    Enter,
    Ignored,
    Input,
    Notice,
    Output,
    Poll,
    Reply,
    Rows,
    Send,
)
from mock_engines.lockstep.rank import CallFailedError, Shutdown
from mock_engines.lockstep.rules import LockstepRules, rules_of
from mock_engines.lockstep.scheduler import PauseState, Row, Work
from mock_engines.meeting_log import counted, named
from mock_engines.outlets import Outlets
from mock_engines.requests import MockRequest
from mock_engines.stats import scheduler_stats
from mock_engines.utilities import Outcome, UtilityFailedError

PAUSES = {PauseState.UNPAUSED: None, PauseState.NEW: "new", PauseState.ALL: "all"}
CHANGED_BY = {
    "pause_scheduler": ("paused",),
    "pause_generation": ("paused", "rejects"),
    "resume_scheduler": ("paused",),
    "sleep": ("sleep_level", "sleeping"),
    "wake_up": ("sleep_level", "sleeping"),
    "release_kv_cache_memory": ("kv_cache_released",),
}
"""What a call that the rank answers itself has changed, by keys of the engine's state."""


def _rules(profile: Profile, pace: Pace) -> LockstepRules:
    """The rules of a release, but for faults that a scenario wants mended."""
    if not pace.mended:
        return rules_of(profile)
    return replace(
        rules_of(profile),
        resumes_once="resumed-twice" in pace.mended,
        pauses_once="paused-twice" in pace.mended,
    )


class Stepping:
    """One rank of a group. Implements ``Member``.

    Args:
        setup: which engine it is.
        lockstep: its group, and how fast it steps.
        engine: kept in step with the rank: requests, pause, memory.
        out: its sends.
        activity: whether it is busy.
        apply: lets a utility that concerns no wave take effect.
    """

    def __init__(
        self,
        setup: EngineSetup,
        lockstep: Lockstep,
        *,
        engine: MockEngine,
        out: Outlets,
        activity: Activity,
        apply: Callable[[UtilityCall], Outcome],
    ) -> None:
        pace = lockstep.pace
        self.activity = activity
        self.rank = lockstep.parts.rank(
            setup.rank,
            _rules(setup.profile, pace),
            lockstep.parts.scheduler(batch=pace.batch, tokens=pace.tokens),
            other=self._other,
            joins=setup.joins,
        )
        self._group = lockstep.group
        self._step_range = pace.step_range
        self._engine = engine
        self._out = out
        self._emit = setup.observer
        self._apply = apply
        self._inbox: deque[Input] = deque()
        self._taken: Input | None = None
        self._requests: dict[str, tuple[MockRequest, Stream]] = {}
        self._calls: dict[tuple[int, int], CallInput] = {}
        self._silent: dict[tuple[int, int], None] = {}
        self._state: tuple[Any, ...] = ()
        self._forwards = 0
        self._moved()

    # --- what arrives -----------------------------------------------------------------------

    def add(self, request: MockRequest, stream: Stream) -> None:
        """ADD: the request gets as many tokens as ``stream`` says, a few in each step."""
        tokens = request.max_tokens if stream.tokens is None else stream.tokens
        self._requests[request.request_id] = (request, stream)
        work = Work(request.request_id, tokens, request.client_index)
        self.put(AddInput(work, request.wave))

    def call(self, call: UtilityCall, *, silent: bool = False) -> None:
        """UTILITY. ``silent``: it takes effect, and nobody is answered."""
        key = (call.client_index, call.call_id)
        item = CallInput(call.client_index, call.call_id, call.method, tuple(call.args))
        self._calls[key] = item
        if silent:
            self._silent[key] = None
        self.put(item)

    def put(self, item: Input) -> None:
        """Something arrived."""
        self._inbox.append(item)
        self._group.stir()

    def let_go(self) -> None:
        """Forget the rank: it refers to this. It must have been stopped."""
        del self.rank

    # --- the loop ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Step until the engine is shut down."""
        self._group.attend(self)
        go_on, activity = self.rank.loop().send, self.activity
        answer: Any = None
        while True:
            try:
                effect = go_on(answer)
            except StopIteration:
                return
            if self._taken is not None:
                self._took_effect()
            self._moved()
            if activity.holding:
                await activity.running()
            # These two are nearly all: each step of each rank has both.
            if effect.__class__ is Poll:
                answer = self._take() if self._inbox else None
            elif effect.__class__ is Enter:
                if effect.group == "device":
                    await self._step_time()
                answer = await self._group.meet(self, effect)
            else:
                answer = await self._carry_out(effect)

    async def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Send():
                await self._send(effect.client, effect.output)
            case Block():
                await self.activity.until(lambda: bool(self._inbox))
                return self._take()
            case _:  # the two others are dealt with in the loop
                assert isinstance(effect, Ignored)
                start, why = effect.start, effect.why
                self._emit(events.StartWaveIgnored(self.rank.rank, start.wave, start.exclude, why))
        return None

    def _take(self) -> Input:
        taken = self._taken = self._inbox.popleft()
        self._group.took(self.rank.rank, taken)
        return taken

    def _took_effect(self) -> None:
        """What was taken from the queue has been handled, at least as far as this."""
        taken, self._taken = self._taken, None
        if isinstance(taken, AbortInput):
            self._engine.abort_now(taken.request_ids)
            for request_id in taken.request_ids:
                self._requests.pop(request_id, None)

    async def _step_time(self) -> None:
        """Wait for as long as this forward pass takes."""
        self._forwards += 1
        low, high = self._step_range
        if high <= 0:
            await aio.next_entry()
            return
        # A generator of its own would be state that a rank which returns must not carry over.
        drawn = zlib.crc32(f"{self.rank.rank}:{self._forwards}".encode()) / 2**32
        await aio.pause_for((low + (high - low) * drawn) / 1000)
        await self.activity.running()

    def _moved(self) -> None:
        rank = self.rank
        state = (
            rank.running,
            rank.wave,
            rank.scheduler.pause,
            rank.pending_pause,
            rank.ignores_starts,
            rank.memory.tags,
            rank.rejects,
            rank.shutdown is not Shutdown.NO,
        )
        # Asked before each thing that it does: nothing is looked up twice, and nothing is called.
        if state == self._state:
            return
        self._state = state
        pause, asleep, ending = rank.scheduler.pause, rank.memory.tags, state[-1]
        self._engine.wave = rank.wave
        utility = self._engine.utility
        utility.paused, utility.rejects = PAUSES[pause], rank.rejects
        utility.asleep = dict.fromkeys(asleep)
        if not asleep:
            utility.sleep_level = None
        self._emit(
            events.RankMoved(
                engine=rank.rank,
                running=rank.running,
                wave=rank.wave,
                pause=pause.name.lower() if pause else "none",
                pending_pause=rank.pending_pause,
                ignores_starts=rank.ignores_starts,
                asleep=asleep,
                ending=ending,
            )
        )
        self.activity.changed()

    # --- what it sends ----------------------------------------------------------------------

    async def _send(self, client: int, output: Output) -> None:
        match output:
            case Rows():
                await self._rows(client, output)
            case Counts(running, waiting, step, wave):
                stats = scheduler_stats(
                    running=running, waiting=waiting, wave=wave, step_counter=step
                )
                await self._out.stats(stats, engine_index=None, coordinator=True)
            case Notice(kind, wave):
                await self._out.notice(kind, wave)
            case Reply():
                await self._reply(client, output)
            case Changed(notice):
                await self._out.elastic_notice(notice)
            case _:
                assert_never(output)

    async def _rows(self, client: int, output: Rows) -> None:
        rows = [
            self._row(row, *self._requests[row.request_id], paused=output.paused)
            for row in output.rows
            if row.request_id in self._requests
        ]
        if rows:
            await self._out.rows(rows, client_index=client)
        for row in output.rows:
            if row.finish is not None:
                self._over(row.request_id)

    def _row(
        self, row: Row, request: MockRequest, stream: Stream, *, paused: bool
    ) -> EngineCoreOutput:
        if paused:
            refused = self._engine.rejection(request)
            if refused is not None:  # pragma: no branch - the rank rejects what it does
                return refused
        if row.tokens:
            self._engine.begin(request)
        if row.finish == "length":
            last = self._engine.step(request, row.tokens)
            return last_row(last, stream, self._engine.profile)
        if row.finish is None:
            return self._engine.step(request, row.tokens)
        return EngineCoreOutput(
            request_id=RequestId(request.request_id),
            new_token_ids=(),
            finish_reason=FinishReason[row.finish.upper()],
        )

    async def _reply(self, client: int, reply: Reply) -> None:
        call = self._calls.pop((client, reply.call_id))
        changed = CHANGED_BY.get(call.method, ())
        if changed and reply.failure is None:
            self._applied(call, changed)
        if self._silent.pop((client, reply.call_id), call) is None:
            return
        await self._out.reply(
            reply.call_id,
            call.method,
            value=reply.value,
            failure=reply.failure,
            client_index=client,
        )

    def _applied(self, call: CallInput, changed: tuple[str, ...]) -> None:
        if call.method == "sleep":
            self._engine.utility.sleep_level = int(call.args[0]) if call.args else 1
        if call.method == "release_kv_cache_memory":
            self._engine.utility.kv_cache_released = True
        view = self._engine.utility.view()
        text = ", ".join(f"{key}={view[key]!r}" for key in changed)
        self._emit(events.UtilityApplied(self.rank.rank, call.call_id, call.method, text))

    def _other(self, method: str, args: tuple[Any, ...]) -> Any:
        """Answer a utility that concerns no wave, as any mock engine does."""
        taken = self._taken
        assert isinstance(taken, CallInput), "a utility is asked for by the call that was taken"
        call = UtilityCall(taken.client, CallId(taken.call_id), method, list(args))
        try:
            outcome = self._apply(call)
        except UtilityFailedError as error:
            raise CallFailedError(str(error).removeprefix(f"call to {method} failed: ")) from error
        if method == "reset_prefix_cache" and args[:1] == (True,):
            self.rank.scheduler.preempt()
        return outcome.value

    def _over(self, request_id: str) -> None:
        known = self._requests.pop(request_id, None)
        if known is not None:
            self._engine.finish(known[0])

    def view(self) -> dict[str, Any]:
        """Return the state of the loop as plain values, for scripts and reports."""
        return {"wave": self.rank.wave, "running": self.rank.running}

    # --- for reports ------------------------------------------------------------------------

    def mailbox(self) -> tuple[str, ...]:
        """What has arrived and is not taken yet, in order."""
        return counted([named(item) for item in self._inbox])

    def describe(self) -> str:
        """Say what it is at, in a few words."""
        rank = self.rank
        parts = [f"{'running' if rank.running else 'not running'}, wave {rank.wave}"]
        if rank.running:
            parts.append(f"step {rank.step_count}")
        running, waiting = rank.scheduler.counts
        parts.append(
            f"requests: {running} running, {waiting} waiting"
            if running or waiting
            else "no requests"
        )
        if rank.pending_pause:
            parts.append("told to pause, not all have agreed")
        elif rank.ignores_starts:
            parts.append("paused, ignores START_DP_WAVE")
        elif rank.scheduler.pause is not PauseState.UNPAUSED:
            parts.append("paused")
        if rank.memory.asleep:
            parts.append(f"asleep ({', '.join(rank.memory.tags)})")
        waits = self._group.collectives.waits(rank.rank)
        if waits is not None:
            parts.append(f"waits in {waits.group} {waits.kind}")
        elif not rank.has_work:
            parts.append("waits for a message")
        return ", ".join(parts)
