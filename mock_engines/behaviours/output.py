"""Single output rows, and the end of a request without one."""

from __future__ import annotations

from typing import Any, ClassVar

from client.protocol.ids import RequestId
from client.protocol.messages import EngineCoreOutput
from mock_engines.behaviours.base import Behaviour, EngineIO, InLockstep, ScriptError
from mock_engines.behaviours.model import Action, Output
from mock_engines.behaviours.stream import finish_reason
from mock_engines.logprobs import logprobs_of
from mock_engines.matching import Kind, Message


class OutputRow(Behaviour):
    """``output`` sends rows as told: for any request, known or not, ended or not."""

    verbs: ClassVar[tuple[str, ...]] = ("output",)
    in_lockstep: ClassVar[InLockstep] = "never"

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:
        """Send the rows; one with a finish reason ends the request if it is still active."""
        spec = action.output or Output()
        known = message.request if spec.request is None else io.engine.find(spec.request)
        if known is not None:
            request_id, client_index = known.request_id, known.client_index
        else:
            request_id, client_index = _unknown_id(spec, message), 0
        row = EngineCoreOutput(
            request_id=RequestId(request_id),
            new_token_ids=tuple(spec.tokens),
            new_logprobs=_logprobs(spec),
            new_prompt_logprobs_tensors=_prompt_logprobs(spec),
            finish_reason=finish_reason(spec.finish),
            stop_reason=spec.stop_reason,
            kv_transfer_params=spec.kv_transfer_params,
        )
        for _ in range(spec.times):
            await io.out.rows(
                [row] * spec.rows,
                client_index=client_index,
                engine_index=spec.engine_index,
                finished=[request_id] * spec.finished,
            )
        if known is not None:
            known.sent += len(spec.tokens) * spec.rows * spec.times
            if spec.finish is not None:
                io.engine.finish(known)


def _logprobs(spec: Output) -> tuple[Any, ...] | None:
    """Logprobs of the tokens, if there are any, in the four places that the wire has."""
    if spec.logprobs is None or not spec.tokens:
        return None
    return (*logprobs_of(spec.tokens, spec.logprobs), None)


def _prompt_logprobs(spec: Output) -> tuple[Any, ...] | None:
    return None if spec.prompt_logprobs is None else logprobs_of(spec.prompt_logprobs, 1)


def _unknown_id(spec: Output, message: Message) -> str:
    if spec.request is not None:
        return spec.request
    if message.request_ids:
        return message.request_ids[0]
    msg = f"'output' needs a 'request' here: {message.kind!r} is about none"
    raise ScriptError(msg)


class FinishOnly(Behaviour):
    """``finish_only`` reports the request as finished, without a final output."""

    verbs: ClassVar[tuple[str, ...]] = ("finish_only",)
    fits: ClassVar[frozenset[Kind]] = frozenset({"add", "abort"})
    in_lockstep: ClassVar[InLockstep] = "never"

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Send ``finished_requests``."""
        if message.request is not None:
            request = message.request
            await io.out.finished_only([request.request_id], client_index=request.client_index)
            io.engine.finish(request)
        else:
            await io.out.finished_only(message.request_ids)
            io.engine.abort_now(message.request_ids)
