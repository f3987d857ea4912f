"""One run's conversation with an adapter: commands and their answers, operations and their ends.

Knows the lines and who waits for what; what a scenario's steps mean is the frontend's part.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from client.aio import DeadlineExceeded, cancel_and_wait, pause, with_deadline
from harness.broken import Broken
from harness.targets.adapter.answers import Answer
from harness.targets.adapter.lines import (
    RESULTS,
    Command,
    Ended,
    EventLine,
    Failure,
    Line,
    Nothing,
    OutputLine,
    Ping,
    Reply,
    Waiting,
)
from harness.targets.adapter.parsing import problems
from harness.targets.adapter.process import AdapterProcess
from harness.targets.base import OnOutput, TargetError

ANSWER_S = 15.0
"""How long an answer may take that needs nobody but the adapter itself, seconds."""
SILENCE_S = 2.0
"""After so long without a line, while somebody waits, the adapter is pinged; seconds."""

R = TypeVar("R", bound=Line)
OnEvent = Callable[[Any], None]
OnWaiting = Callable[[str, int], None]
_ids = itertools.count(1)
"""Never the same twice, so that a late answer cannot be taken for that of another run."""


class Refused(Exception):  # noqa: N818  (what the client answered, not our fault)
    """The client answered a command with an error."""

    def __init__(self, failure: Failure) -> None:
        self.name = failure.name
        self.message = failure.message
        super().__init__(f"{failure.name}: {failure.message}")


@dataclass(slots=True)
class _Operation:
    answer: Answer[Ended]
    on_output: OnOutput | None


class Conversation:
    """Talks with an attached process. ``begin`` it, ``end`` it."""

    def __init__(
        self, process: AdapterProcess, on_event: OnEvent, on_waiting: OnWaiting, broken: Broken
    ) -> None:
        """Make one for a process that nobody else is attached to.

        Args:
            process: said hello, and is in no run.
            on_event: gets the events of the client, in the adapter's order.
            on_waiting: gets a gate's name and how the number of those changes who wait at it.
            broken: is told when the process fails.
        """
        self._process = process
        self._on_event = on_event
        self._on_waiting = on_waiting
        self._broken = broken
        self._asked: dict[int, Answer[Reply]] = {}
        self._given_up: set[int] = set()
        self._ops: dict[str, _Operation] = {}
        self._heard = 0
        self._watch: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Attach the process to the running loop and watch over it."""
        self._process.attach(self._take, self._failed)
        self._watch = asyncio.get_running_loop().create_task(self._listen(), name="adapter: watch")

    async def end(self) -> None:
        """Detach the process. Idempotent."""
        if self._watch is not None:
            await cancel_and_wait([self._watch])
            self._watch = None
        self._process.detach()

    @property
    def number(self) -> int:
        """A fresh ``id`` for a command."""
        return next(_ids)

    def send(self, command: Command) -> None:
        """Write a command that has no answer.

        Raises:
            TargetError: the way to the adapter broke.
        """
        self._broken.check()
        self._process.send(command)

    async def ask(self, command: Any, result: type[R], *, limit_s: float | None = None) -> R:
        """Write a command and wait for its answer.

        Args:
            command: one with an ``id``.
            result: what is expected, see ``RESULTS``.
            limit_s: seconds after which the adapter is given up; ``None`` where the answer
                depends on what is judged (an adapter that says nothing at all is given up anyway).

        Raises:
            Refused: the client answered with an error.
            TargetError: the way to the adapter broke.
        """
        answer: Answer[Reply] = Answer(self._broken)
        self._asked[command.id] = answer
        try:
            self.send(command)
            await with_deadline(answer.wait(), limit_s, name=f"adapter: {command.do}")
        except DeadlineExceeded:
            if not answer.settled:
                self._process.fail(f"did not answer {command.do!r} within {limit_s:g} s")
        finally:
            del self._asked[command.id]
            if not answer.settled:
                self._given_up.add(command.id)
        reply = await answer.wait()
        if reply.error is not None:
            raise Refused(reply.error)
        return self._result(command, reply, result)

    def _result(self, command: Any, reply: Reply, result: type[R]) -> R:
        assert RESULTS.get(type(command), Nothing) is result
        try:
            return result.model_validate_json(_dump(reply.result), strict=True)
        except ValidationError as error:
            what = f"answered {command.do!r} with an invalid result: {problems(error)}"
            self._process.fail(what, reply.model_dump_json(exclude_unset=True).encode())
            self._broken.check()
            raise

    # --- operations -------------------------------------------------------------------------

    def open(self, op: str, on_output: OnOutput | None) -> Answer[Ended]:
        """Expect lines about an operation; its end is the answer."""
        if op in self._ops:
            msg = f"operation {op!r} is used twice"
            raise TargetError(msg)
        answer: Answer[Ended] = Answer(self._broken)
        self._ops[op] = _Operation(answer, on_output)
        return answer

    def silence(self, op: str) -> None:
        """The caller of an operation left: what it still gets, nobody reads."""
        self._ops[op].on_output = None

    # --- lines ------------------------------------------------------------------------------

    def _take(self, line: Line) -> bool:
        self._heard += 1
        match line:
            case EventLine():
                self._on_event(line.fields)
            case OutputLine():
                return self._output(line)
            case Ended():
                return self._ended(line)
            case Reply():
                return self._reply(line)
            case Waiting():
                self._on_waiting(line.gate, line.change)
            case _:
                self._fault("a second 'hello'", line)
        return False

    def _output(self, line: OutputLine) -> bool:
        op = self._ops.get(line.op)
        if op is None:
            self._fault(f"about an operation that was never begun, {line.op!r}", line)
        elif op.answer.settled:
            self._fault(f"an output of {line.op!r}, which had ended", line)
        elif op.on_output is not None:
            op.on_output(line.tokens, line.finish, line.text)
        return False

    def _ended(self, line: Ended) -> bool:
        op = self._ops.get(line.op)
        if op is None:
            self._fault(f"about an operation that was never begun, {line.op!r}", line)
        elif op.answer.settled:
            self._fault(f"a second end of {line.op!r}", line)
        else:
            op.answer.settle(line)
        return True

    def _reply(self, line: Reply) -> bool:
        if line.result is not None and line.error is not None:
            self._fault("a reply with a result and an error", line)
        elif line.id in self._asked:
            self._asked[line.id].settle(line)
        elif line.id in self._given_up:
            self._given_up.discard(line.id)
        else:
            self._fault(f"an answer to command {line.id}, which nobody asked or was answered", line)
        return True

    def _fault(self, what: str, line: Line) -> None:
        self._process.fail(f"wrote {what}", line.model_dump_json(exclude_unset=True).encode())

    def _failed(self, error: TargetError) -> None:
        self._broken.set(error)
        for asked in self._asked.values():
            asked.wake()
        for op in self._ops.values():
            op.answer.wake()

    async def _listen(self) -> None:
        """Ping an adapter that says nothing while somebody waits for it."""
        while self._broken.error is None:
            heard = self._heard
            await pause(SILENCE_S)
            waits = self._asked or any(not op.answer.settled for op in self._ops.values())
            if waits and heard == self._heard:
                with suppress(Refused, TargetError):
                    await self.ask(Ping(id=self.number), Nothing, limit_s=ANSWER_S)


def _dump(result: dict[str, Any] | None) -> bytes:
    return json.dumps({} if result is None else result).encode()
