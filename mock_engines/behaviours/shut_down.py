"""``shut_down``: the process of an engine is told to end in order."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import ANY_KIND, Behaviour, EngineIO, InLockstep, ScriptError
from mock_engines.behaviours.model import Action
from mock_engines.lockstep.effects import ShutdownInput
from mock_engines.matching import Kind, Message

DRAIN_S = 3600.0
"""Longer than any run: what is under way comes to its end."""


class ShutDown(Behaviour):
    """``abort`` ends what is under way, ``drain`` lets it come to its end.

    New requests and calls are refused meanwhile. Only engines that step with others know the
    difference; ``die`` is for the rest.
    """

    verbs: ClassVar[tuple[str, ...]] = ("shut_down",)
    fits: ClassVar[frozenset[Kind]] = ANY_KIND
    in_lockstep: ClassVar[InLockstep] = "queues"

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Tell it."""
        if io.stepping is None:
            msg = "'shut_down' needs engines that step together (topology.waves: lockstep)"
            raise ScriptError(msg)
        io.stepping.put(ShutdownInput(DRAIN_S if action.shut_down == "drain" else 0.0))
