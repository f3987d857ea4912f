"""The busy loop of one rank, decided: a generator that says what it does next.

Theory of operation. A rank takes what has arrived, runs a step, and while the engines *run* meets
its peers: in every forward pass (a rank without work runs a dummy one), and every few steps in an
exchange of who has work left. The exchange ends the wave for all in the same step, so they agree on
the wave number without any other message::

    idle ──ADD · START_DP_WAVE · pause──► running ──step · step · … · exchange: nobody has work──► idle
                                             ▲──────────── exchange: somebody has ────────────┘    wave + 1

A *pause* has two phases: each rank that was told goes on stepping until an exchange says that all
were told; from then on wake-ups are ignored. *Resume* is a meeting of all ranks as well.

Source: vLLM ``v1/engine/core.py``: ``DPEngineCoreProc`` (``run_busy_loop``, ``add_request``,
``_handle_client_request``, ``_has_global_unfinished_reqs``, ``_pause_complete``,
``resume_scheduler``) and ``EngineCoreProc``; protocol page, sections 13 and 14.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Iterable
from typing import Any, assert_never

from mock_engines.lockstep.collectives import Change
from mock_engines.lockstep.effects import (
    COORDINATOR,
    DUMMY,
    FORWARD,
    POLL,
    AbortInput,
    AddInput,
    Block,
    CallInput,
    Counts,
    Effect,
    Enter,
    Ignored,
    Input,
    Notice,
    Reply,
    Rows,
    Send,
    ShutdownInput,
    StartInput,
)
from mock_engines.lockstep.elastic import METHODS, Elastic, ElasticError, Role
from mock_engines.lockstep.memory import KV_CACHE, SCHEDULING, Memory
from mock_engines.lockstep.rules import LockstepRules
from mock_engines.lockstep.scheduler import PauseState, Row, Scheduler

Loop = Generator[Effect, Any, None]
Part = Generator[Effect, Any, Any]
PAUSE_MODES = ("abort", "wait", "keep")
MEETING_METHODS = frozenset({"update_weights"})
"""Methods of workers, called by ``collective_rpc``, in which all ranks meet: weights are sent to
all of them at once."""
RESUME_IN_FLIGHT = (
    "resume_scheduler came while a pause is still in flight; wait for the pause to return first"
)
NEEDS_PAUSE = "release_kv_cache_memory needs a pause that is complete"
NEEDS_MEMORY = "release_kv_cache_memory needs all memory to be awake"
SHUTTING_DOWN = "the server is shutting down"


class CallFailedError(Exception):
    """The call is answered with this text as its failure."""


class Shutdown(enum.Enum):
    """How far the end of the process is."""

    NO = "no"
    ASKED = "asked"
    UNDER_WAY = "under way"


class Later:
    """The answer to a call that comes once the rank is idle."""

    def __init__(self, then: Callable[[], Any] = lambda: None) -> None:
        self._then = [then]

    def and_then(self, then: Callable[[], Any]) -> Later:
        """Do this as well; the last result is the answer."""
        self._then.append(then)
        return self

    def result(self) -> Any:
        """Do all of it."""
        value = None
        for then in self._then:
            value = then()
        return value


class Rank:
    """One rank of several that step together.

    Attributes:
        running: it takes part in a wave.
        wave: the current wave.
        step_count: steps of this wave so far.
        pending_pause: it was told to pause, and not all agree yet.
        ignores_starts: all agreed on the pause.
        rejects: new requests are refused (0.33).
        elastic: the change of the group that it takes part in.
        left: its group shrank without it; its loop is over.
    """

    def __init__(
        self,
        rank: int,
        rules: LockstepRules,
        scheduler: Scheduler | None = None,
        *,
        has_coordinator: bool = True,
        publishes: bool = True,
        other: Callable[[str, tuple[Any, ...]], Any] | None = None,
        joins: int | None = None,
    ) -> None:
        """An idle rank.

        Args:
            rank: its index; 0 speaks for all.
            rules: of the release.
            scheduler: holds its requests.
            has_coordinator: wave notices go there; without one to client 0, from each rank.
            publishes: request counts go to the coordinator when they change.
            other: answers utility methods that concern no wave; raises ``CallFailedError``.
            joins: it is started for a group of this size, which it joins at the switch.
        """
        self.rank = rank
        self.rules = rules
        self.scheduler = Scheduler() if scheduler is None else scheduler
        self.memory = Memory(sleeps_again=rules.releases_kv_cache)
        self.running = False
        self.wave = 0
        self.step_count = 0
        self.pending_pause = False
        self.elastic = Elastic(rank, joins)
        self.ignores_starts = self.elastic.due
        self.left = False
        self.rejects = False
        self.shutdown = Shutdown.NO
        self._timeout_s = 0.0
        self._has_coordinator = has_coordinator
        self._publishes = publishes
        self._other = other
        self._published = (0, 0)
        self._when_idle: list[tuple[CallInput, Later]] = []

    @property
    def has_work(self) -> bool:
        """Whether the loop goes on without waiting for input."""
        return self.running or self.scheduler.has_work or self.elastic.due

    # --- the loop ---------------------------------------------------------------------------

    def loop(self) -> Loop:
        """Run until the process is told to end. See ``effects`` for what it yields."""
        while self.shutdown is Shutdown.NO or (yield from self._goes_on()):
            was_running = self.running
            yield from self._take_input()
            if self.scheduler.counts != self._published:
                yield from self._publish()
            if self.elastic.due:
                yield from self._switch()
                if self.left:
                    return
            executed = yield from self._step()
            if self.scheduler.counts != self._published:
                yield from self._publish()
            unfinished = self.scheduler.unfinished > 0
            if not executed:
                if not unfinished and not self.running:
                    continue
                if self.rules.dummies_asleep or not self.memory.asleep:
                    yield DUMMY
            self.running = yield from self._exchange(unfinished)
            if not self.running:
                yield from self._wave_over()
            elif not was_running and self._announces_edge:
                yield Send(COORDINATOR, Notice("start", self.wave))

    @property
    def _announces_edge(self) -> bool:
        speaks = self._has_coordinator and self.rank == 0
        return self.rules.announces_edge and speaks and not self.pending_pause

    def _take_input(self) -> Part:
        while not self.has_work and self.shutdown is Shutdown.NO:
            yield from self._tell_idle()
            yield from self.handle((yield Block()))
        while (item := (yield POLL)) is not None:
            yield from self.handle(item)

    def _tell_idle(self) -> Part:
        while self._when_idle:
            call, later = self._when_idle.pop()
            yield Send(call.client, Reply(call.call_id, later.result()))

    def _step(self) -> Part:
        if not self.scheduler.has_work:
            return False
        rows, executed = self.scheduler.step()
        if executed:
            yield FORWARD
        if len(rows) == 1:  # most often
            yield Send(rows[0].client, Rows(tuple(rows)))
            return executed
        for client in dict.fromkeys(row.client for row in rows):
            yield Send(client, Rows(tuple(row for row in rows if row.client == client)))
        return executed

    def _exchange(self, unfinished: bool) -> Part:
        """Meet the others if it is due; whether anybody has work left, as far as it is known."""
        self.step_count += 1
        if not self.rules.syncs(self.step_count):
            return True
        anybody, consensus = yield Enter("host", "sync", (unfinished, self.pending_pause))
        if consensus:
            self.ignores_starts = True
            self.pending_pause = False
        return anybody

    def _wave_over(self) -> Part:
        if self.rank == 0 or not self._has_coordinator:
            client = COORDINATOR if self._has_coordinator else 0
            yield Send(client, Notice("complete", self.wave))
        self.wave += 1
        self.step_count = 0

    def _publish(self) -> Part:
        counts = self.scheduler.counts
        if self._publishes and counts != self._published:
            self._published = counts
            yield Send(COORDINATOR, Counts(*counts, step=self.step_count, wave=self.wave))

    # --- input ------------------------------------------------------------------------------

    def handle(self, item: Input) -> Part:
        """Take one input."""
        match item:
            case AddInput():
                yield from self._add(item)
            case AbortInput():
                self.scheduler.abort(item.request_ids)
            case StartInput():
                yield from self._start(item)
            case CallInput():
                yield from self._call(item)
            case ShutdownInput():
                if self.shutdown is Shutdown.NO:
                    self.shutdown, self._timeout_s = Shutdown.ASKED, item.timeout_s
            case _:
                assert_never(item)

    def _add(self, item: AddInput) -> Part:
        work = item.work
        if self.shutdown is not Shutdown.NO:
            yield _ended([Row(work.request_id, work.client, 0, "abort")], work.client)
            return
        if self.rejects and not self.scheduler.has(work.request_id):
            row = Row(work.request_id, work.client, 0, "error")
            yield _ended([row], work.client, paused=True)
            return
        self.scheduler.add(work)
        if self._has_coordinator:
            yield from self._of_wave(item.wave)

    def _of_wave(self, wave: int) -> Part:
        """Take the wave of an ADD over; tell the coordinator if its peers may be asleep."""
        stale = wave < self.wave
        self.wave = max(self.wave, wave)
        idle = not self.running and self.scheduler.pause is PauseState.UNPAUSED
        if idle and (stale or self.rules.announces_current):
            self.running = True
            yield Send(COORDINATOR, Notice("start", self.wave))

    def _start(self, item: StartInput) -> Part:
        if self.ignores_starts:
            yield Ignored(item, "the rank is paused")
        elif item.exclude == self.rank:
            yield Ignored(item, "it leaves this rank out")
        elif item.wave < self.wave:
            yield Ignored(item, f"the rank is at wave {self.wave} already")
        else:
            self.wave = item.wave
            self.running = True

    # --- another size -----------------------------------------------------------------------

    def _switch(self) -> Part:
        """Meet the ranks of this group and of the next one, once; go on as the next one does."""
        elastic = self.elastic
        state = elastic.state(running=self.running, wave=self.wave, step=self.step_count)
        agreed: Change = yield Enter("switch", f"switch to {elastic.size} ranks", state)
        role, told = elastic.switched()
        if told is not None:
            yield Send(0, told)
        if role is Role.LEAVES:
            self.left = True
        else:
            self._take_over(agreed)

    def _take_over(self, agreed: Change) -> None:
        """Be as the ranks of the new group are."""
        self.running, self.wave, self.step_count = agreed.running, agreed.wave, agreed.step

    # --- utility calls ----------------------------------------------------------------------

    def _call(self, item: CallInput) -> Part:
        if self.shutdown is not Shutdown.NO:
            yield Send(item.client, Reply(item.call_id, failure=SHUTTING_DOWN))
            return
        try:
            value = yield from self._answer(item.method, item.args)
        except CallFailedError as error:
            failure = f"call to {item.method} failed: {error}"
            yield Send(item.client, Reply(item.call_id, failure=failure))
            return
        if isinstance(value, Later):
            self._when_idle.append((item, value))
        else:
            yield Send(item.client, Reply(item.call_id, value))

    def _answer(self, method: str, args: tuple[Any, ...]) -> Part:
        match method:
            case "pause_scheduler":
                return (yield from self._pause(*args[:2]))
            case "pause_generation" if self.rules.rejects_while_paused:
                later = yield from self._pause(*args[:2])
                self.rejects = (args[0] if args else "abort") != "keep"
                return later
            case "resume_scheduler":
                return (yield from self._resume())
            case "sleep":
                return (yield from self._sleep(*args[:2]))
            case "wake_up":
                return (yield from self._wake_up(*args[:1]))
            case "release_kv_cache_memory" if self.rules.releases_kv_cache:
                return self._release_kv_cache()
            case "is_sleeping":
                return self.scheduler.pause is not PauseState.UNPAUSED or self.memory.asleep
            case "is_scheduler_paused":
                return self.scheduler.pause is not PauseState.UNPAUSED
            case "barrier":
                return (yield Enter("host", "barrier"))
            case method if method in METHODS and self.rules.changes_size:
                return self._change_size(method, args)
            case "collective_rpc" if args and args[0] in MEETING_METHODS:
                results = self._answer_other(method, args)
                yield Enter("device", "collective_rpc")
                return results
        return self._answer_other(method, args)

    def _change_size(self, method: str, args: tuple[Any, ...]) -> Any:
        try:
            return self.elastic.answer(method, args)
        except ElasticError as error:
            raise CallFailedError(str(error)) from error

    def _answer_other(self, method: str, args: tuple[Any, ...]) -> Any:
        if self._other is None:
            msg = f"engine core has no utility method {method!r}"
            raise CallFailedError(msg)
        return self._other(method, args)

    def _pause(self, mode: str = "abort", clear_cache: bool = True) -> Part:
        if mode not in PAUSE_MODES:
            msg = f"invalid pause mode {mode!r}"
            raise CallFailedError(msg)
        if mode == "abort":
            yield from self._abort_all()
        self.scheduler.pause = PauseState.ALL if mode == "keep" else PauseState.NEW
        if not (self.rules.pauses_once and self.ignores_starts):
            # Idle ranks step too, or they would never come to the exchange that tells who was told.
            self.pending_pause = True
            self.running = True
        # An emptied cache takes what was frozen with it: those requests wait to be run anew.
        return Later(self.scheduler.preempt) if clear_cache else Later()

    def _resume(self) -> Part:
        if self.pending_pause or (self.running and self.ignores_starts):
            raise CallFailedError(RESUME_IN_FLIGHT)
        if self.running or (self.rules.resumes_once and not self._is_paused):
            return None
        self.rejects = False
        self.scheduler.pause = PauseState.UNPAUSED
        self.ignores_starts = False
        if (yield Enter("host", "resume", self.scheduler.unfinished > 0)):
            self.running = True
        return None

    @property
    def _is_paused(self) -> bool:
        return self.ignores_starts or self.scheduler.pause is not PauseState.UNPAUSED

    def _sleep(self, level: int = 1, mode: str = "abort") -> Part:
        later: Later = yield from self._pause(mode, level >= 1)
        return later if level < 1 else later.and_then(self.memory.sleep)

    def _wake_up(self, tags: Iterable[str] | None = None) -> Part:
        wanted = None if tags is None else [tag for tag in tags if tag != SCHEDULING]
        if tags is None or wanted:
            self.memory.wake(wanted)
        awake = not self.memory.asleep
        if awake or self.rules.resumes_half_awake:
            yield from self._resume()
        return awake if self.rules.wake_up_tells else None

    def _release_kv_cache(self) -> None:
        if self.scheduler.pause is PauseState.UNPAUSED or self.scheduler.has_work:
            raise CallFailedError(NEEDS_PAUSE)
        if self.memory.asleep:
            raise CallFailedError(NEEDS_MEMORY)
        self.scheduler.preempt()
        self.memory.release(KV_CACHE)

    # --- the end ----------------------------------------------------------------------------

    def _goes_on(self) -> Part:
        if self.shutdown is Shutdown.ASKED:
            if self._timeout_s == 0:
                yield from self._abort_all()
            self.shutdown = Shutdown.UNDER_WAY
        return self.has_work

    def _abort_all(self) -> Part:
        rows = self.scheduler.abort()
        for client in dict.fromkeys(row.client for row in rows):
            yield _ended([row for row in rows if row.client == client], client)


def _ended(rows: list[Row], client: int, *, paused: bool = False) -> Send:
    """Tell a client that these requests are over, and list them."""
    finished = tuple(row.request_id for row in rows)
    return Send(client, Rows(tuple(rows), finished, paused=paused))
