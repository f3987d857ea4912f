"""The callers of a scenario: each call and utility call runs as a task and reports what it sees."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from client.aio import all_done, cancel_and_wait
from harness.crowd import Crowd, Fence
from harness.expectations import Op
from harness.scenario.model import CallStep, CrowdStep, LoadStep, ScaleStep, Step, UtilityStep
from harness.targets.base import Frontend, Launcher, RequestResult, TargetError
from harness.trace.events import (
    BODY_MAX,
    AbortRequested,
    CallEnded,
    CallOutput,
    CallStarted,
    CancelRequested,
    RequestEnded,
    RequestStarted,
    ScaleEnded,
    ScaleStarted,
    UtilityEnded,
    UtilityStarted,
)
from harness.trace.recorder import Recorder


class Operations:
    """All operations of one run.

    Attributes:
        ops: by id, in the order in which they began.
        tasks: of those that steps began; the callers of a ``load`` step are its own.
    """

    def __init__(self, frontend: Frontend, trace: Recorder, launcher: Launcher) -> None:
        self._frontend = frontend
        self._launcher = launcher
        self._trace = trace
        self._loads = 0
        self.ops: dict[str, Op] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, step: Step) -> None:
        """Start the operation of a ``call`` or ``utility`` step in the background."""
        if step.call is not None:
            call = step.call
            op = Op(call.id, "call", external_id=self._at(call.frontend).external_id(call))
            op.frontend = call.frontend
            self._trace.emit(
                CallStarted(
                    call.id,
                    op.external_id,
                    call.rank,
                    tuple(call.rank_text or ()),
                    call.surface,
                )
            )
            self._spawn(op, self._run_call(op, call))
        elif step.utility is not None:
            utility = step.utility
            op = Op(utility.id, "utility", method=utility.method)
            self._trace.emit(UtilityStarted(op.id, utility.method, utility.via))
            self._spawn(op, self._run_utility(op, utility))

        elif step.scale is not None:
            scale = step.scale
            op = Op(scale.id, "scale", method=f"scale to {scale.to}")
            self._trace.emit(ScaleStarted(op.id, scale.to))
            self._spawn(op, self._run_scale(op, scale))
        elif step.http is not None:
            request = step.http
            op = Op(request.id, "http", method=f"{request.verb} {request.path}")
            self._trace.emit(RequestStarted(op.id, op.method))
            self._spawn(op, self._run_request(op, self._frontend.http(request)))
        elif step.grpc is not None:
            op = Op(step.grpc.id, "grpc", method=step.grpc.method)
            self._trace.emit(RequestStarted(op.id, op.method))
            self._spawn(op, self._run_request(op, self._frontend.grpc(step.grpc)))

    def _at(self, number: int) -> Frontend:
        return self._frontend if number == 0 else self._frontend.further(number)

    def _spawn(self, op: Op, work: Coroutine[Any, Any, None]) -> None:
        if op.id in self.ops:
            work.close()
            msg = f"operation id {op.id!r} is used twice"
            raise TargetError(msg)
        self.ops[op.id] = op
        loop = asyncio.get_running_loop()
        self.tasks[op.id] = loop.create_task(work, name=f"op {op.id}")

    async def _run_call(self, op: Op, step: CallStep) -> None:
        def on_output(tokens: tuple[int, ...], finish: str | None, text: str = "") -> None:
            op.tokens.extend(tokens)
            op.text += text
            self._trace.emit(CallOutput(op.id, tokens, finish, text))

        try:
            result = await self._at(step.frontend).generate(step, on_output)
        except asyncio.CancelledError:
            op.outcome = "cancelled"
            self._trace.emit(CallEnded(op.id, "cancelled", None, None, ""))
            raise
        op.outcome, op.finish = result.outcome, result.finish
        op.error, op.message = result.error, result.message
        op.kv_transfer_params = result.kv_transfer_params
        op.status, op.body = result.status, result.body
        self._trace.emit(
            CallEnded(op.id, op.outcome, op.finish, op.error, result.message, result.status)
        )

    async def _run_request(self, op: Op, work: Coroutine[Any, Any, RequestResult]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            op.outcome = "cancelled"
            self._trace.emit(RequestEnded(op.id, op.method, "cancelled", None, "", None))
            raise
        op.outcome, op.status, op.error = result.outcome, result.status, result.error
        op.body, op.body_text = result.body, result.text
        self._trace.emit(
            RequestEnded(op.id, op.method, op.outcome, op.status, result.text[:BODY_MAX], op.error)
        )

    async def _run_utility(self, op: Op, step: UtilityStep) -> None:
        try:
            result = await self._at(step.frontend).utility(step)
        except asyncio.CancelledError:
            op.outcome = "cancelled"
            self._trace.emit(UtilityEnded(op.id, step.method, "cancelled", "None", None, ""))
            raise
        op.outcome, op.value = result.outcome, result.value
        op.error, op.message = result.error, result.message
        self._trace.emit(
            UtilityEnded(op.id, step.method, op.outcome, repr(op.value), op.error, result.message)
        )

    async def _run_scale(self, op: Op, step: ScaleStep) -> None:
        try:
            result = await self._frontend.scale(step, self._launcher)
        except asyncio.CancelledError:
            op.outcome = "cancelled"
            self._trace.emit(ScaleEnded(op.id, step.to, "cancelled", None, ""))
            raise
        op.outcome, op.error, op.message = result.outcome, result.error, result.message
        self._trace.emit(ScaleEnded(op.id, step.to, op.outcome, op.error, result.message))

    def task(self, name: str) -> asyncio.Task[None]:
        """The task of an operation. Raises ``TargetError`` for one that was never started."""
        if name not in self.tasks:
            msg = f"operation {name!r} was never started"
            raise TargetError(msg)
        return self.tasks[name]

    async def leave(self, step: Step) -> None:
        """The caller of an operation leaves (``cancel``, ``drop``)."""
        name = step.cancel if step.cancel is not None else step.drop
        assert name is not None
        task = self.task(name)
        self._trace.emit(CancelRequested(name, step.verb))
        task.cancel(step.verb)
        await all_done([task])
        op = self.ops[name]
        if op.outcome == "pending":  # cancelled before its task ever ran
            op.outcome = "cancelled"
            if op.kind == "call":
                self._trace.emit(CallEnded(name, "cancelled", None, None, ""))
            elif op.kind in ("http", "grpc"):
                self._trace.emit(RequestEnded(name, op.method, "cancelled", None, "", None))
            elif op.kind == "scale":
                to = int(op.method.rpartition(" ")[2])
                self._trace.emit(ScaleEnded(name, to, "cancelled", None, ""))
            else:
                self._trace.emit(UtilityEnded(name, op.method, "cancelled", "None", None, ""))

    async def abort(self, names: list[str]) -> None:
        """Abort by the ids that callers know."""
        self._trace.emit(AbortRequested(tuple(names)))
        by_frontend: dict[int, list[str]] = {}
        for name in names:
            op = self.ops.get(name)
            number, given = (0, name) if op is None else (op.frontend, op.external_id)
            by_frontend.setdefault(number, []).append(given)
        for number, ids in by_frontend.items():
            await self._at(number).abort(ids)

    async def crowd(self, step: CrowdStep, fence: Fence) -> None:
        """Many short-lived callers, until all are gone."""
        await Crowd(step, self._frontend, self._trace, self.ops, self._run_call, fence).run()

    async def load(self, step: LoadStep, busy: Callable[[], bool]) -> None:
        """Short requests from a few callers, one after the other, until all are served.

        ``busy``: whether background engine steps are still at work.
        """
        self._loads += 1
        loop = asyncio.get_running_loop()
        callers = [
            loop.create_task(self._caller(f"load{self._loads}-{n}", step, busy), name=f"load {n}")
            for n in range(step.clients)
        ]
        try:
            await all_done(callers)
        finally:
            await cancel_and_wait([caller for caller in callers if not caller.done()])
        for caller in callers:
            caller.result()

    async def _caller(self, prefix: str, step: LoadStep, busy: Callable[[], bool]) -> None:
        for index in itertools.count():
            if index >= step.requests and not (step.until_quiet and busy()):
                return
            call = CallStep(id=f"{prefix}-{index}", max_tokens=1)
            op = Op(call.id, "call", external_id=self._frontend.external_id(call))
            self.ops[op.id] = op
            self._trace.emit(CallStarted(call.id, op.external_id, None, (), call.surface))
            await self._run_call(op, call)
