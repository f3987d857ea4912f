"""``default`` and ``apply``: what a well-behaved engine does, with and without its answer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from client.protocol.ids import RequestId
from client.protocol.messages import EngineCoreOutput, FinishReason, UtilityCall
from mock_engines.behaviours.base import MESSAGES, Behaviour, EngineIO, InLockstep
from mock_engines.behaviours.model import Action, Stream
from mock_engines.behaviours.stream import stream_tokens
from mock_engines.lockstep.effects import AbortInput, StartInput
from mock_engines.matching import Kind, Message
from mock_engines.requests import MockRequest
from mock_engines.utilities import Outcome, UtilityFailedError

if TYPE_CHECKING:
    from mock_engines.stepping import Stepping

PLAIN_STREAM = Stream()
"""All tokens, one by one, then the end."""


class Default(Behaviour):
    """``default: true`` streams, stops what is aborted, answers utilities, takes waves over."""

    verbs: ClassVar[tuple[str, ...]] = ("default",)
    fits: ClassVar[frozenset[Kind]] = MESSAGES
    in_lockstep: ClassVar[InLockstep] = "queues"

    def blocks(self, action: Action, message: Message) -> bool:  # noqa: ARG002
        """Say yes to a stream, and to a pause that waits for requests to end."""
        return message.kind == "add" or (message.call is not None and "wait" in message.call.args)

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Behave well."""
        if io.stepping is not None:
            _queue(message, io.stepping)
        elif message.kind == "add":
            await _serve(message.request, io)
        elif message.call is None:
            await take_effect(message, io)
        else:
            await _answer(message.call, io)


class Apply(Behaviour):
    """``apply: true`` takes effect without an answer: half of what ``default`` does."""

    verbs: ClassVar[tuple[str, ...]] = ("apply",)
    fits: ClassVar[frozenset[Kind]] = MESSAGES
    in_lockstep: ClassVar[InLockstep] = "queues"

    def blocks(self, action: Action, message: Message) -> bool:  # noqa: ARG002
        """It may wait for requests to end, as ``default`` does."""
        return message.call is not None and "wait" in message.call.args

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Take effect."""
        if io.stepping is not None:
            _queue(message, io.stepping, silent=True)
        else:
            await take_effect(message, io)


def _queue(message: Message, stepping: Stepping, *, silent: bool = False) -> None:
    """Let the engine's loop take it when it comes to that.

    ``silent``: it answers no call, and a request is never taken up.
    """
    if message.request is not None:
        if not silent:
            stepping.add(message.request, PLAIN_STREAM)
    elif message.kind == "abort":
        stepping.put(AbortInput(tuple(message.request_ids)))
    elif message.start is not None:
        start = message.start
        stepping.put(StartInput(start.wave, start.exclude_engine_index))
    elif message.call is not None:
        stepping.call(message.call, silent=silent)


async def take_effect(message: Message, io: EngineIO) -> None:
    """Let a message change the engine, and send nothing that answers it.

    A utility that would fail changes nothing.
    """
    if message.kind == "abort":
        io.engine.abort_now(message.request_ids)
    elif message.start is not None:
        io.apply_start_wave(message.start)
    elif message.call is not None:
        with suppress(UtilityFailedError):
            await _apply(message.call, io)


async def _serve(request: MockRequest | None, io: EngineIO) -> None:
    if request is None:
        return
    refusal = io.engine.rejection(request)
    if request.abort_immediately:
        refusal = _aborted(request)
    if refusal is not None:
        await io.out.rows([refusal], client_index=request.client_index)
        io.engine.finish(request)
        return
    await stream_tokens(PLAIN_STREAM, request, io)


async def _answer(call: UtilityCall, io: EngineIO) -> None:
    failure: str | None = None
    value = None
    try:
        outcome = await _apply(call, io)
        value = outcome.value
    except UtilityFailedError as error:
        failure = str(error)
    await io.out.reply(
        call.call_id, call.method, value=value, failure=failure, client_index=call.client_index
    )


async def _apply(call: UtilityCall, io: EngineIO) -> Outcome:
    outcome = io.apply(call)
    if outcome.abort_running:
        # Source: vLLM, pause mode ``abort``: outputs with finish reason abort, by client.
        for request in io.engine.active():
            await io.out.rows([_aborted(request)], client_index=request.client_index)
            io.engine.finish(request)
    if outcome.wait_drained:
        await io.until(lambda: io.engine.drained)
    return outcome


def _aborted(request: MockRequest) -> EngineCoreOutput:
    return EngineCoreOutput(
        request_id=RequestId(request.request_id),
        new_token_ids=(),
        finish_reason=FinishReason.ABORT,
    )
