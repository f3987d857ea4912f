"""Many short-lived callers: each one is a call that may hang up at a named moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from client.aio import all_done, cancel_and_wait, resolve
from harness.expectations import Op
from harness.scenario.model import CallStep, CrowdStep, EventMatch
from harness.targets.base import Frontend
from harness.trace.events import CallStarted, CancelRequested, Record
from harness.trace.recorder import Recorder

RunCall = Callable[[Op, CallStep], Awaitable[None]]
"""Runs one call to its end and reports what its caller sees."""


class Crowd:
    """The callers of one ``crowd`` step; ``await run()`` returns when all are gone."""

    def __init__(
        self,
        step: CrowdStep,
        frontend: Frontend,
        trace: Recorder,
        ops: dict[str, Op],
        run_call: RunCall,
    ) -> None:
        self._step = step
        self._frontend = frontend
        self._trace = trace
        self._ops = ops
        self._run_call = run_call
        self._next = 0

    async def run(self) -> None:
        """Let ``at_once`` workers take the callers one after the other."""
        loop = asyncio.get_running_loop()
        count = min(self._step.at_once, self._step.callers)
        workers = [
            loop.create_task(self._work(), name=f"crowd {self._step.id} {n}") for n in range(count)
        ]
        try:
            await all_done(workers)
        finally:
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
        moment: asyncio.Future[None] = loop.create_future()
        event = {"after-add": "add", "after-output": "call-output"}.get(self._step.leave)
        unsubscribe = None
        if event is not None:
            wanted = EventMatch(event=event, request=op.id)
            unsubscribe = self._trace.subscribe(partial(self._look, wanted, moment))
        task = loop.create_task(_nothing(self._run_call(op, call)), name=f"op {op.id}")
        try:
            if event is None:
                # One turn of the loop: the request is on its way.
                loop.call_soon(resolve, moment)
            task.add_done_callback(lambda _task: resolve(moment))
            await moment
            if not task.done():
                self._trace.emit(CancelRequested(op.id, "crowd"))
        finally:
            if unsubscribe is not None:
                unsubscribe()
            await cancel_and_wait([task])
        if not task.cancelled():
            task.result()

    def _look(self, wanted: EventMatch, moment: asyncio.Future[None], record: Record) -> None:
        if self._trace.match(record, wanted):
            resolve(moment)


async def _nothing(work: Awaitable[None]) -> None:
    await work
