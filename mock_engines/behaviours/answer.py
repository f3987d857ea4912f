"""Answers to utility calls: right, unusual, or a failure."""

from __future__ import annotations

from typing import ClassVar

from client.protocol.messages import UtilityCall
from mock_engines.behaviours.base import Behaviour, EngineIO, ScriptError
from mock_engines.behaviours.model import Action, ReplyWith
from mock_engines.matching import Kind, Message


def call_of(message: Message, verb: str) -> UtilityCall:
    """Return the call that is to be answered. Raises ``ScriptError`` when there is none."""
    if message.call is None:
        msg = f"{verb!r} needs a utility call, this is {message.kind!r}"
        raise ScriptError(msg)
    return message.call


class Reply(Behaviour):
    """``reply: VALUE`` answers with that value, whatever type the method has."""

    verbs: ClassVar[tuple[str, ...]] = ("reply",)
    fits: ClassVar[frozenset[Kind]] = frozenset({"utility"})

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:
        """Send the reply."""
        call = call_of(message, action.verb)
        await io.out.reply(
            call.call_id, call.method, value=action.reply, client_index=call.client_index
        )


class Fail(Behaviour):
    """``fail: TEXT`` answers with a failure message."""

    verbs: ClassVar[tuple[str, ...]] = ("fail",)
    fits: ClassVar[frozenset[Kind]] = frozenset({"utility"})

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:
        """Send the failure."""
        call = call_of(message, action.verb)
        await io.out.reply(
            call.call_id, call.method, failure=action.fail, client_index=call.client_index
        )


class ReplyUnusually(Behaviour):
    """``reply_with``: another call id, several times, through another engine's index.

    Outside a rule it needs a ``call_id`` of its own.
    """

    verbs: ClassVar[tuple[str, ...]] = ("reply_with",)
    fits: ClassVar[frozenset[Kind]] = frozenset({"utility", "act"})

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:
        """Send the replies."""
        spec = action.reply_with or ReplyWith()
        call_id = spec.call_id
        if call_id is None:
            call_id = call_of(message, action.verb).call_id
        method = message.call.method if message.call is not None else ""
        client_index = message.call.client_index if message.call is not None else 0
        value = spec.value if spec.list_of is None else [spec.value] * spec.list_of
        for _ in range(spec.times):
            await io.out.reply(
                call_id + spec.add_to_call_id,
                method,
                value=value,
                failure=spec.failure,
                client_index=client_index,
                engine_index=spec.engine_index,
            )
