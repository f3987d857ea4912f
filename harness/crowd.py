"""Many short-lived callers: each one is a call that may hang up at a named moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from client.aio import all_done, cancel_and_wait, resolve
from harness.expectations import Op
from harness.scenario.model import CallStep, CrowdStep
from harness.targets.base import WHEN_OFF, AbortLine, Frontend, NoServer, instant
from harness.trace.events import (
    AbortRequested,
    CallEnded,
    CallOutput,
    CallStarted,
    CancelRequested,
    Record,
)
from harness.trace.kinds import id_belongs
from harness.trace.recorder import Recorder
from mock_engines.events import AddSeen

RunCall = Callable[[Op, CallStep], Awaitable[None]]
"""Runs one call to its end and reports what its caller sees."""
Moment = asyncio.Future[None]
Fence = Callable[[], Awaitable[None]]
"""Returns when everything that was sent before has been acted on."""
_AT_THE_ADD = frozenset({"after-add", "abort-after-add"})


class Crowd:
    """The callers of one ``crowd`` step; ``await run()`` returns when all are gone."""

    def __init__(
        self,
        step: CrowdStep,
        frontend: Frontend,
        trace: Recorder,
        ops: dict[str, Op],
        run_call: RunCall,
        fence: Fence,
    ) -> None:
        self._step = step
        self._frontend = frontend
        self._trace = trace
        self._ops = ops
        self._run_call = run_call
        self._fence = fence
        self._next = 0
        self._waiting: dict[str, _Leaver] = {}
        """Who waits for the event at which to leave, by op."""

    async def run(self) -> None:
        """Let ``at_once`` workers take the callers one after the other."""
        if self._step.spread_ms and await self._in_haste():
            return
        loop = asyncio.get_running_loop()
        count = min(self._step.at_once, self._step.callers)
        unsubscribe = self._trace.subscribe(self._look)
        workers = [
            loop.create_task(self._work(), name=f"crowd {self._step.id} {n}") for n in range(count)
        ]
        try:
            await all_done(workers)
        finally:
            unsubscribe()
            await cancel_and_wait([worker for worker in workers if not worker.done()])
        for worker in workers:
            worker.result()

    async def _in_haste(self) -> bool:
        """Let a target that can do so send all requests and hang up, with nothing in between.

        So they are told before and after. Their callers have left in any case: who begins
        to hang up is gone whatever comes.
        """
        step = self._step
        if not isinstance(self._frontend, NoServer) or not self._frontend.hurries(step.surface):
            return False
        callers = [self._begin(number) for number in range(step.callers)]
        for op, _call in callers:
            self._trace.emit(CancelRequested(op.id, "crowd"))
        calls = [call for _op, call in callers]
        await self._frontend.hurry(calls, step.at_once, step.spread_ms / 1000)
        for op, _call in callers:
            op.outcome = "cancelled"
            self._trace.emit(CallEnded(op.id, "cancelled", None, None, ""))
        return True

    async def _work(self) -> None:
        line = await self._line()
        try:
            while self._next < self._step.callers:
                number = self._next
                self._next += 1
                await self._caller(number, line)
        finally:
            if line is not None:
                line.close()

    async def _line(self) -> AbortLine | None:
        """The connection of a worker for the aborts of its callers, where there is one."""
        frontend = self._frontend
        if self._step.leave != "abort-after-add" or not isinstance(frontend, NoServer):
            return None
        return await frontend.abort_line()

    async def _caller(self, number: int, line: AbortLine | None) -> None:
        op, call = self._begin(number)
        if self._step.leave == "no":
            await self._run_call(op, call)
        else:
            await self._leave(op, call, number, line)

    def _begin(self, number: int) -> tuple[Op, CallStep]:
        """Make the call of one caller, and say that it began."""
        step = self._step
        call = CallStep(
            id=f"{step.id}-{number}",
            rank=step.rank,
            surface=step.surface,
            prompt=step.prompt,
            max_tokens=step.max_tokens,
        )
        op = Op(call.id, "call", external_id=self._frontend.external_id(call))
        self._ops[op.id] = op
        self._trace.emit(CallStarted(call.id, op.external_id, call.rank, (), call.surface))
        return op, call

    async def _leave(self, op: Op, call: CallStep, number: int, line: AbortLine | None) -> None:
        """Run a call and hang up when the moment has come, unless it ended before."""
        loop = asyncio.get_running_loop()
        leaver = _Leaver(op.external_id, loop.create_future(), line)
        at_once = self._step.leave == "at-once"
        if not at_once:
            self._waiting[op.id] = leaver
        off = partial(self._off, number, leaver.moment) if at_once else None
        task = loop.create_task(self._call(op, call, off), name=op.id)
        try:
            task.add_done_callback(lambda _task: resolve(leaver.moment))
            await leaver.moment
            if self._step.leave == "abort-after-add":
                await self._abort(op, task, leaver)
            if not task.done():
                self._trace.emit(CancelRequested(op.id, "crowd"))
        finally:
            self._waiting.pop(op.id, None)
            await cancel_and_wait([task])
        if not task.cancelled():
            task.result()

    async def _abort(self, op: Op, task: asyncio.Task[None], leaver: _Leaver) -> None:
        """Ask for the abort of a call; return when it ended, or when it should have."""
        self._trace.emit(AbortRequested((op.id,)))
        if leaver.line is not None and leaver.asked:
            await leaver.line.answered()
        else:
            await self._frontend.abort([op.external_id])
        if not task.done():
            # Most have ended when the next question has been answered; a fence is long.
            await self._frontend.health()
        if not task.done():
            await self._fence()

    async def _call(self, op: Op, call: CallStep, off: Callable[[], None] | None) -> None:
        """Run a call; ``off`` is called once its request has left."""
        if off is not None:
            if isinstance(self._frontend, NoServer) and self._frontend.tells_when_off:
                WHEN_OFF.set(off)
            else:
                # One turn of the loop: without a server the request is on its way then.
                asyncio.get_running_loop().call_soon(off)
        await self._run_call(op, call)

    def _off(self, number: int, moment: Moment) -> None:
        """The request of a caller is off: it leaves now, or at its own instant of the spread."""
        if self._step.spread_ms:
            delay_s = instant(number, self._step.spread_ms / 1000)
            asyncio.get_running_loop().call_later(delay_s, resolve, moment)
        else:
            resolve(moment)

    def _look(self, record: Record) -> None:
        """Tell those for whom this is the event at which they leave."""
        event = record.event
        if self._step.leave == "after-output" and isinstance(event, CallOutput):
            self._resolve(event.op)
        elif self._step.leave in _AT_THE_ADD and isinstance(event, AddSeen):
            for op, leaver in self._waiting.items():
                external = leaver.external_id
                if event.external_id == external or id_belongs(event.request_id, external):
                    if leaver.line is not None and not leaver.asked:
                        # Here and now: the frontend may be busy with this request still.
                        leaver.asked = True
                        leaver.line.send([external])
                    self._resolve(op)
                    break

    def _resolve(self, op: str) -> None:
        if (leaver := self._waiting.get(op)) is not None:
            resolve(leaver.moment)


@dataclass(slots=True)
class _Leaver:
    """A caller that waits for its moment. ``asked``: its abort is on its way on ``line``."""

    external_id: str
    moment: Moment
    line: AbortLine | None
    asked: bool = False
