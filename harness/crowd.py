"""Many short-lived callers: each one is a call that may hang up at a named moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from client.aio import all_done, cancel_and_wait, resolve
from harness.expectations import Op
from harness.scenario.model import CallStep, CrowdStep
from harness.targets.base import WHEN_OFF, Frontend, NoServer
from harness.trace.events import (
    AbortRequested,
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
        self._waiting: dict[str, Moment] = {}
        """Who waits for the event at which to leave, by op."""

    async def run(self) -> None:
        """Let ``at_once`` workers take the callers one after the other."""
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

    async def _work(self) -> None:
        while self._next < self._step.callers:
            number = self._next
            self._next += 1
            await self._caller(number)

    async def _caller(self, number: int) -> None:
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
        if step.leave == "no":
            await self._run_call(op, call)
        else:
            await self._leave(op, call)

    async def _leave(self, op: Op, call: CallStep) -> None:
        """Run a call and hang up when the moment has come, unless it ended before."""
        loop = asyncio.get_running_loop()
        moment: Moment = loop.create_future()
        at_once = self._step.leave == "at-once"
        if not at_once:
            self._waiting[op.id] = moment
        task = loop.create_task(self._call(op, call, moment if at_once else None), name=op.id)
        try:
            task.add_done_callback(lambda _task: resolve(moment))
            await moment
            if self._step.leave == "abort-after-add":
                await self._abort(op, task)
            if not task.done():
                self._trace.emit(CancelRequested(op.id, "crowd"))
        finally:
            self._waiting.pop(op.id, None)
            await cancel_and_wait([task])
        if not task.cancelled():
            task.result()

    async def _abort(self, op: Op, task: asyncio.Task[None]) -> None:
        """Ask for the abort of a call; return when it ended, or when it should have."""
        self._trace.emit(AbortRequested((op.id,)))
        await self._frontend.abort([op.external_id])
        if not task.done():
            await self._fence()

    async def _call(self, op: Op, call: CallStep, off: Moment | None) -> None:
        if off is not None:
            if isinstance(self._frontend, NoServer) and self._frontend.tells_when_off:
                WHEN_OFF.set(partial(resolve, off))
            else:
                # One turn of the loop: without a server the request is on its way then.
                asyncio.get_running_loop().call_soon(resolve, off)
        await self._run_call(op, call)

    def _look(self, record: Record) -> None:
        """Tell those for whom this is the event at which they leave."""
        event = record.event
        if self._step.leave == "after-output" and isinstance(event, CallOutput):
            self._resolve(event.op)
        elif self._step.leave in _AT_THE_ADD and isinstance(event, AddSeen):
            for op in self._waiting:
                external = self._ops[op].external_id
                if event.external_id == external or id_belongs(event.request_id, external):
                    self._resolve(op)
                    break

    def _resolve(self, op: str) -> None:
        if (moment := self._waiting.get(op)) is not None:
            resolve(moment)
