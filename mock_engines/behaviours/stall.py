"""``stall``: the whole engine stops, and later goes on as if nothing had been."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO
from mock_engines.behaviours.model import Action
from mock_engines.matching import Message


class Stall(Behaviour):
    """``stall: GATE`` reads and sends nothing until the gate opens; sockets stay as they are.

    It does not count as one that may take long: with a task of its own, messages that arrived
    behind this one would still be handled before the engine stops.
    """

    verbs: ClassVar[tuple[str, ...]] = ("stall",)

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Stop, and return once the gate is open."""
        assert action.stall is not None, "an action's value is checked when it is read"
        await io.stall(action.stall)
