"""``stream``: tokens for the request that matched, in chunks, with a pause where wanted."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from client.protocol.messages import EngineCoreOutput, FinishReason, RequestError
from client.protocol.profiles import Profile
from mock_engines.behaviours.base import Behaviour, EngineIO, InLockstep
from mock_engines.behaviours.model import Action, FinishName, Stream
from mock_engines.matching import Kind, Message
from mock_engines.requests import MockRequest


class StreamTokens(Behaviour):
    """Stream as told; ends quietly when the request is aborted on the way."""

    verbs: ClassVar[tuple[str, ...]] = ("stream",)
    fits: ClassVar[frozenset[Kind]] = frozenset({"add"})
    in_lockstep: ClassVar[InLockstep] = "queues"

    def blocks(self, action: Action, message: Message) -> bool:  # noqa: ARG002
        """Each chunk is a step of its own."""
        return True

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:
        """Stream for the request of an ADD; nothing to do if that was dropped."""
        spec = action.stream or Stream()
        if message.request is None:
            return
        if io.stepping is not None:
            io.stepping.add(message.request, spec)
        else:
            await stream_tokens(spec, message.request, io)


def finish_reason(name: FinishName | None) -> FinishReason | None:
    """Return the finish reason that a script names."""
    return None if name is None else FinishReason[name.upper()]


async def stream_tokens(spec: Stream, request: MockRequest, io: EngineIO) -> None:
    """Send the tokens of one stream; the last row carries the finish reason.

    With ``pause_at`` equal to the number of tokens, all of them leave before the pause and the
    end follows in a row of its own.
    """
    total = request.max_tokens if spec.tokens is None else spec.tokens
    pause_at = 0 if spec.pause_at is None and spec.gate is not None else spec.pause_at
    sent = 0
    ended = False
    while not ended:
        await io.until(lambda: io.engine.may_step(request) or not io.engine.is_active(request))
        if not io.engine.is_active(request):
            return
        io.engine.begin(request)
        if sent == pause_at:
            pause_at = None
            await io.hang(spec.gate)
            continue
        stop = total if pause_at is None else min(total, max(pause_at, sent))
        count = min(spec.chunk, stop - sent)
        sent += count
        ended = sent == total and pause_at != sent
        if count == 0 and spec.finish is None:
            return
        row = io.engine.step(request, count)
        if ended:
            row = last_row(row, spec, io.engine.profile)
        await io.out.rows([row], client_index=request.client_index)
        if ended and spec.finish is not None:
            io.engine.finish(request)
        elif not ended:
            await io.next_turn()


def last_row(row: EngineCoreOutput, spec: Stream, profile: Profile) -> EngineCoreOutput:
    """Make the last row of a stream of this one."""
    error = None
    if spec.error is not None and profile.request_error_field:
        error = RequestError(
            code=str(spec.error.get("code", "internal_error")),
            message=str(spec.error.get("message", "")),
            retryable=bool(spec.error.get("retryable", False)),
        )
    return msgspec.structs.replace(
        row,
        finish_reason=finish_reason(spec.finish),
        stop_reason=spec.stop_reason,
        kv_transfer_params=spec.kv_transfer_params,
        error=error,
    )
